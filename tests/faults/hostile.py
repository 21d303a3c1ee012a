"""Queries that attack, and a grammar of disguises for them."""

from __future__ import annotations

from hypothesis import strategies as st

from graphmem.store.allowed import tokenize

MARKER = "MARKER-73110"
"""What the file holds that no query may read."""

_FILE = "'file:///tmp/graphmem-marker.csv'"

ALONE = [
    f"LOAD CSV FROM {_FILE} AS line RETURN line",
    f"LOAD CSV WITH HEADERS FROM {_FILE} AS line RETURN line",
    f"`LOAD` CSV FROM {_FILE} AS line RETURN line", f"LOAD `CSV` FROM {_FILE} AS line RETURN line",
    "CREATE (n:Hacked) RETURN 1 AS x", "CREATE p = (n:Hacked) RETURN 1 AS x",
    "MERGE (n:Hacked) RETURN 1 AS x", "INSERT (n:Hacked)",
    "MATCH (n) SET n.hacked = true RETURN n.id", "MATCH (n) SET n:Hacked", "MATCH (n) REMOVE n.id",
    "MATCH (n) DELETE n", "MATCH (n) DETACH DELETE n",
    "MATCH (n) WITH n, 1 AS limit WHERE limit DELETE [n][0]", "MATCH (n) WITH n.as DELETE [n][0]",
    "MATCH (n) WITH * DELETE [n][0]", "MATCH (n) FOREACH (x IN [1] | SET n.hacked = x)",
    "UNWIND [1] AS x CALL { WITH x CREATE (:Hacked) } IN TRANSACTIONS RETURN x",
    "CALL { CREATE (n:Hacked) RETURN n } RETURN n.id", "CREATE USER eve SET PASSWORD 'abcdefghij'",
    "CREATE INDEX FOR (n:Hacked) ON (n.x)", "DROP INDEX hacked IF EXISTS", "SHOW USERS",
    "SHOW INDEXES", "SHOW DATABASES YIELD name RETURN name",
    "TERMINATE TRANSACTION 'neo4j-transaction-1'", "USE system SHOW USERS",
    "EXPLAIN CREATE (n:Hacked)", "PROFILE MATCH (n) RETURN n",
    "CYPHER runtime=slotted RETURN 1 AS x", "FOR VALID_TIME ALL MATCH (n) RETURN n",
    "RETURN 1 AS x FORMAT CSV", "RETURN 1 AS x; CREATE (n:Hacked)", "RETURN file() AS x",
    "RETURN apoc.cypher.runFirstColumnSingle('CREATE (n:Hacked)', {}) AS x",
    "RETURN `apoc`.`cypher`.`runFirstColumnSingle`('CREATE (n:Hacked)', {}) AS x",
    "RETURN `apoc.load.json`('x') AS x", "RETURN text_edit_distance('a', 'b') AS x",
]  # fmt: skip
CALLS = [
    "apoc.systemdb.execute(\"CREATE USER eve SET PASSWORD 'abcdefghij'\")",
    "apoc.bolt.execute('bolt://127.0.0.1', 'CREATE (n:Hacked)', {})",
    "apoc.bolt.load('bolt://127.0.0.1', 'RETURN 1', {})", f"apoc.load.csv({_FILE})",
    f"apoc.load.json({_FILE})", f"`apoc`.`load`.`json`({_FILE})", f"`apoc.load.json`({_FILE})",
    "apoc.cypher.run('CREATE (n:Hacked)', {})", "apoc.cypher.doIt('CREATE (n:Hacked)', {})",
    "apoc.export.csv.all('x.csv', {})",
    "apoc.custom.installProcedure('eve() :: (x :: INT)', 'RETURN 1 AS x', 'neo4j', 'read', '')",
    "custom.graphmem.erase_episodes()", "dbms.listConfig()",
    "dbms.security.createUser('eve', 'abcdefghij', false)", "db.cdc.enable({})",
    "db.createLabel('Hacked')", "genai.vector.encodeBatch(['a'], 'OpenAI', {})", "refresh_stats()",
    "pagerank()",
]  # fmt: skip
_CONTEXTS = [
    "CALL {}", "CALL {} YIELD value RETURN value", "MATCH (n) CALL {} YIELD value RETURN n, value",
    "CALL {{ CALL {} YIELD value RETURN value }} RETURN value",
    "RETURN 1 AS value UNION CALL {} YIELD value RETURN value",
]  # fmt: skip
_INNER = [
    "RETURN 1 AS line UNION {}", "RETURN 1 AS line UNION ALL {}", "WITH 1 AS load, 2 AS csv {}",
    "MATCH (n) WHERE n.as {}", "UNWIND [1] AS x {}", "CALL {{ {} }} RETURN line",
    "CALL (*) {{ {} }} RETURN line", "RETURN EXISTS {{ {} }} AS x", "RETURN COUNT {{ {} }} AS x",
    "RETURN COLLECT {{ {} }} AS x",
]  # fmt: skip

ATTACKS = [
    *ALONE,
    *(context.format(call) for context in _CONTEXTS for call in CALLS),
    *(inner.format(attack) for inner in _INNER for attack in ALONE),
]

HONEST = [
    "MATCH (s:Strategy) WHERE s.ns = $ns RETURN s.text AS text ORDER BY text",
    "MATCH (s:Strategy {ns: $ns}) RETURN count(*) AS n, collect(DISTINCT s.text)[0..2] AS some",
    "OPTIONAL MATCH (e:Episode)-[u:USED|SET]->(s) WHERE e.ns = $ns RETURN count(u) AS n",
    "UNWIND range(1, 3) AS x WITH x WHERE x > 1 RETURN x AS x UNION ALL RETURN 0x1F AS x",
    "CALL db.labels() YIELD label RETURN label ORDER BY label SKIP 0 LIMIT 5",
    "MATCH (n) WHERE n.ns = $ns AND EXISTS { (n)-->() } RETURN count(n) AS n",
    "MATCH (n) WHERE n.ns = $ns AND COUNT { (n)--() } > 1 RETURN count(n) AS n",
    "MATCH p = (a:Agent)-[*1..2]->(b) WHERE a.ns = $ns RETURN count(p) AS n",
    "MATCH (n:Delete) WHERE n.set = 1 RETURN n.load AS create, {merge: 1} AS m",
    "RETURN CASE WHEN true THEN [x IN [1, 2] WHERE x > 1 | x * 2] ELSE [] END AS x",
    "RETURN reduce(sum = 0, x IN [1, 2] | sum + x) AS x, all(x IN [1] WHERE x = 1) AS y",
    "WITH {a: CASE 1 WHEN 1 THEN 2 END, b: NOT true} AS m RETURN m.a AS a, m {.a, c: -1.5e3} AS b",
    "RETURN 'a' STARTS WITH 'a' AS x, 'LOAD CSV // /* ' AS y, null IS NOT NULL AS z, 1 AS `a b`",
    "CALL { MATCH (s:Strategy) WHERE s.ns = $ns RETURN s LIMIT 1 } RETURN count(s) AS n",
]


@st.composite
def disguises(draw: st.DrawFn, text: str, *, escapes: bool = False) -> str:
    """Draw the same tokens with other cases, comments and white space between.

    ``escapes`` also writes letters as ``\\u0041``, or words in backticks.
    """
    blank = st.sampled_from([
        *" \n\t\x0b\x0c\x1c\xa0\u2003\u2028\u3000", "\r\n",
        *("//\n", "//x' \" ` */\n", "// CREATE\r", "/**/", "/* ' */", "/*\n//*/", "/* LOAD */"),
    ])  # fmt: skip
    parts: list[str] = []
    before = None
    for token in tokenize(text):
        written = token.text
        named = before is not None and before.text in (":", "|")
        if token.kind == "word" and _keyword(written) and not named:
            written = draw(st.sampled_from([written, written.lower(), written.title()]))
            if escapes and draw(st.integers(0, 9)) == 0:
                at = draw(st.integers(0, len(written) - 1))
                code = f"\\u{ord(written[at]):04x}"
                written = written[:at] + code + written[at + 1 :]
            elif escapes and draw(st.integers(0, 9)) == 0:
                written = f"`{written}`"
        joined = before is not None and (before.kind == "sign" or token.kind == "sign")
        gap = draw(st.lists(blank, min_size=0 if joined else 1, max_size=2))
        if before is not None:
            parts += gap or [text[before.at + len(before.text) : token.at]]
        parts.append(written)
        before = token
    return "".join(parts)


def _keyword(word: str) -> bool:
    return word.isupper() and len(word) > 1


SLOW = {
    "rows": "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(*) AS n",
    "combinations": "MATCH (a), (b), (c), (d), (e), (f) RETURN count(a.id + f.id) AS n",
    "sorted": "UNWIND range(1, 30000) AS a UNWIND range(1, 30000) AS b RETURN a + b AS n "
    "ORDER BY n",
    "collected": "UNWIND range(1, 30000) AS a UNWIND range(1, 30000) AS b "
    "RETURN collect(a + b) AS n",
    "paths": "MATCH p = (a)-[*1..30]-(b) RETURN count(p) AS n",
    "shortest": "MATCH p = allShortestPaths((a)-[*]-(b)) WHERE a <> b WITH p MATCH (c), (d), (e) "
    "RETURN count(p) AS n",
    "subquery": "MATCH (a) WHERE EXISTS { MATCH (x), (y), (z), (w), (v) "
    "WHERE x.id + y.id + z.id + w.id + v.id = 'no' } RETURN count(a) AS n",
    "called": "UNWIND range(1, 100000) AS a CALL { WITH a UNWIND range(1, 100000) AS b "
    "RETURN count(*) AS c } RETURN sum(c) AS n",
}
LARGE = {
    "text doubled": "RETURN size(reduce(s = 'aaaaaaaaaa', x IN range(1, 40) | s + s)) AS n",
    "list doubled": "RETURN size(reduce(s = [1, 2], x IN range(1, 40) | s + s)) AS n",
    "list nested": "RETURN reduce(s = [1, 2], x IN range(1, 40) | [s, s]) AS n",
    "text replaced": "RETURN size(reduce(s = 'aa', x IN range(1, 40) | replace(s, 'a', 'aaa'))) "
    "AS n",
    "step by step": f"WITH 'aaaaaaaaaa' AS a {'WITH a + a + a + a + a + a + a + a AS a ' * 12}"
    "RETURN size(a) AS n",
    "rows of long texts": "UNWIND range(1, 100000) AS x "
    "RETURN reduce(s = 'aaaaaaaaaa', i IN range(1, 14) | s + s) + toString(x) AS n",
    "cut apart": "RETURN size(split(reduce(s = 'a', x IN range(1, 27) | s + s), '')) AS n",
}
