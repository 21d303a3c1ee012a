"""Error classes: one text for all errors that differ only in particulars.

The fixed wording stays; variable parts are masked: quoted text, numbers, ids, times, hexadecimal,
UUIDs, paths, URLs, addresses. Numbers that identify the error (``error 1054:``, ``HTTP 404``,
``exit status 1``) stay, and so does the case of letters.
"""

from __future__ import annotations

import re

MAX_CLASS = 200  # a class has at most this many characters

MAX_READ = 20_000  # characters of an error that are read: of a longer one, half from each end

_ROUNDS = 3
_TRACEBACK = "Traceback (most recent call last):"
_INVISIBLE = re.compile(
    r"\x1b\[[0-9;?]{0,20}[A-Za-z]"  # terminal colours
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+"
)
_FRAMES = re.compile(r"(?:\n[ \t]++at [^\n]*+)++")  # of Java and JavaScript
_STATEMENT = re.compile(r"\n(?:\[SQL: |LINE \d{1,9}: ).*+", re.DOTALL)
"""The statement that SQLAlchemy and PostgreSQL append to their message."""

# No input is slow: unbounded quantifiers are possessive (they never backtrack), and the lookbehind
# lets each start only once in a run of its characters.
_WRAPPED = re.compile(
    # errors of MySQL drivers: (1054, "Unknown column 'x' in 'field list'")
    r"\((?P<number>\d{3,5}),\ ?(?P<quote>[\"'])(?P<text>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P=quote)\)"
    # the message in a JSON answer or a Python dict
    r"|(?P<mark>[\"'])(?P<key>error|errors|message|msg|error_message|detail|details|reason)(?P=mark)"
    r"\s{0,9}:\s{0,9}"
    r"(?P<other>[\"'])(?P<value>(?:(?!(?P=other))[^\\]|\\.)*+)(?P=other)",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ALL_QUOTED = re.compile(r"\s*+(?:\"([^\"\\]*+)\"|'([^'\\]*+)')\s*+")

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_ZONE = r"(?:Z|\ ?[+-]\d{2}:?\d{2}|\ ?(?:[AP]M|UTC|GMT))"
_CLOCK = rf"\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?{_ZONE}?"
_ENDING = (
    r"(?:py|pyc|js|ts|tsx|json|jsonl|ya?ml|toml|ini|cfg|conf|csv|tsv|xlsx?|txt|md|log|html?|css"
    r"|xml|sql|sh|c|h|cpp|go|rs|rb|java|php|ipynb|pdf|png|jpe?g|svg|zip|tar|gz|db|sqlite)"
)
_PARTICULAR = re.compile(
    rf"""
    # MySQL quotes up to 80 characters of the statement, with the quotes and line ends in it
      (?P<near>  (?<=\bnear\ )'.{{0,80}}'(?=\ at\ line\ ) )
    # a ' within a word is an apostrophe; one before which another quote opens was never closed
    | (?P<text>  (?<![\w\\'])'(?:[^'\\]|\\.|(?<=\w)'{{1,2}}(?=\w))*+'++(?!\w)
               | (?<!\\)"(?:[^"\\]|\\.)*+"
               | `[^`]*+` | “[^“”]*+” | «[^«»]*+» )
    | (?P<path>  (?<![^\s(\[{{=:,;|])(?:~|\.\.?)?/(?=[\w.@~])[^\s'"`<>|;,()\[\]{{}}:]++(?::\d++)*+
               | (?<![\w\\])\\\\[\w.-]++(?:\\[^\s'"`<>|;,:\\]++)++ )
    | (?<!\w)(?=[-+]?\w)(?:
      (?P<code>  (?i:
                   (?:win)?error\ ?[#\[(]?[a-z]{{0,4}}\d{{1,5}}(?=\ ?[:(\])])
                 | errno[\ :=]{{1,2}}\d{{1,5}}
                 | http(?:\ status|\ error|\ code|/\d\.\d)?[\ :]{{1,2}}[1-5]\d\d
                 | status[\ :=]{{1,2}}[1-5]\d\d
                 | (?:error|status|response|return|exit|with)[\ _]code[\ :=]{{0,3}}-?\d{{1,5}}
                 | (?:exit\ status|signal)\ \d{{1,3}}
                 | sqlstate[\ :=\[(]{{1,2}}[0-9a-z]{{5}}
                 | ora-\d{{5}}
                 )(?!\w|\.\d) )
    | (?P<url>   (?<![+.-])[A-Za-z][A-Za-z0-9+.-]{{0,15}}://[^\s'"`<>()\[\]{{}}|]++ )
    | (?P<email> (?<![.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++ )
    | (?P<place> [A-Za-z]:[\\/](?:[^\s'"`<>|;,:]|\ (?=[\w.-]{{1,40}}\\))++(?::\d++)*+
               | (?<![./-])(?:[\w.-]++/)*+(?:[\w-]++\.)++{_ENDING}(?!\w|[./]\w)(?::\d++)*+ )
    | (?P<uuid>  [0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}(?!\w) )
    | (?P<time>  (?<![.:])(?:
                   \d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:(?:T|,?\ ){_CLOCK})?(?![\w/-])
                 | \d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}(?:,?\ {_CLOCK})?(?![\w/-])
                 | (?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\ )?
                   (?:\d{{1,2}}\ {_MONTH}(?:,?\ \d{{4}})?|{_MONTH}\ \d{{1,2}}(?:,?\ \d{{4}})?)
                   (?:,?\ {_CLOCK}(?:\ \d{{4}})?)?(?!\w)
                 | \d{{1,2}}:\d{{2}}:\d{{2}}(?:[.,]\d{{1,9}})?{_ZONE}?(?![\w:]) ) )
    | (?P<ip>    (?<![.:])(?:
                   \d{{1,3}}(?:\.\d{{1,3}}){{3}}(?:[:/]\d{{1,5}})?(?!\w|\.\d)
                 | (?=[a-fA-F:]{{0,39}}\d)(?:
                     [0-9a-fA-F]{{1,4}}(?::[0-9a-fA-F]{{1,4}}){{7}}
                   | (?:[0-9a-fA-F]{{1,4}}:){{1,7}}(?::[0-9a-fA-F]{{1,4}}){{1,7}})(?![\w:]) ) )
    | (?P<hex>   (?:0[xX][0-9a-fA-F]++|(?=\d*+[a-fA-F])[0-9a-fA-F]{{12,}}+)(?!\w) )
    | (?P<number>(?<!\d[.,])(?:(?<![)\]>])[-+])?\d++(?:[.,]\d++)*+
                 (?:[eE][-+]?\d++)?+(?:[^\W\d]{{1,3}})?+(?!\w)%? )
    | (?P<id>    (?<!-)(?=[A-Z-]*+\d)[A-Z0-9]++(?:-[A-Z0-9]++)++(?![\w-])
               | (?=[^\W\d]*+\d)\w++ )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_SUSPECT = re.compile(r"[\d\"`“«/\\@]|(?<!\w)'|\.\w|[a-fA-F]{12}")
"""Every particular contains one of these."""
_NAMES = ("path", "text", "email", "uuid", "time", "ip", "hex", "number", "id", "url")
_MASKS = {"near": "<text>", "place": "<path>", **{name: f"<{name}>" for name in _NAMES}}
_LIST = re.compile(rf"({'|'.join(sorted(set(_MASKS.values())))})(?:(?:,|;|\||,? and|,? or)?\ ?\1)+")


def error_class(text: str) -> str:
    """Return the class of an error: its wording with every particular masked.

    The class of a class is itself. Only the exception of a Python traceback counts, and only the
    content of a quoted or JSON message. A list of particulars of one kind counts as one. Of a text
    longer than ``MAX_READ`` only the beginning and the end are read. A class has at most
    ``MAX_CLASS`` characters on one line; it is empty for an empty text.
    """
    if len(text) > MAX_READ:
        text = f"{text[: MAX_READ // 2]}\n{text[-MAX_READ // 2 :]}"
    for _ in range(_ROUNDS):  # masking can create new matches
        before, text = text, _masked(text)
        if text == before or not _SUSPECT.search(text):
            return text
    words = re.findall(r"[^\W\d_]+", text)  # only letters: nothing left to mask
    return " ".join(word for word in words if not _SUSPECT.search(word))


def _masked(text: str) -> str:
    text = _INVISIBLE.sub(" ", text.replace("\r\n", "\n"))
    text = _STATEMENT.sub("", _FRAMES.sub("", _exception(text)))
    quoted = _ALL_QUOTED.fullmatch(text)
    if quoted:
        text = quoted[1] or quoted[2] or ""
    text = _WRAPPED.sub(_unwrap, text)
    text = _LIST.sub(r"\1", " ".join(_PARTICULAR.sub(_mask, text).split()))
    if len(text) <= MAX_CLASS:
        return text
    head = text[: MAX_CLASS + 1]
    words = head.rpartition(" ")[0]
    return words if len(words) > MAX_CLASS // 2 else head[:MAX_CLASS]


def _exception(text: str) -> str:
    """Remove the frames of a Python traceback, and all exceptions but the last."""
    before, traceback, _ = text.partition(_TRACEBACK)
    if not traceback:
        return text
    lines = text.rpartition(_TRACEBACK)[2].split("\n")
    for number, line in enumerate(lines[1:], 1):
        if line.strip() and not line[0].isspace():
            return before + "\n".join(lines[number:])
    return text


def _unwrap(match: re.Match[str]) -> str:
    number = match["number"]
    body = _ESCAPED.sub(
        lambda escaped: " " if escaped[1] in "nrt" else escaped[1],
        match["text"] if number else match["value"],
    )
    return f"error {number}: {body}" if number else f"{match['key']}: {body}"


def _mask(match: re.Match[str]) -> str:
    kind = match.lastgroup or "code"
    if kind in ("url", "path", "place"):  # without the end of the sentence
        return _MASKS[kind] + match[0][len(match[0].rstrip(".,;:!?")) :]
    return _MASKS.get(kind, match[0])
