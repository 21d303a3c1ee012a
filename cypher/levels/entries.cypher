// Entries of levels: texts or JSON with tags, for a time. The entries of a level are found by its edges
// IN, so that other levels cost nothing. What stores one locks the stream of its level first.

// name: entries.add
// mode: write
// doc: Stores new entries in a level, each with an event in its stream. Rows: {id, place (from 1), key, content, format, text, tags,
// doc: said, tagset, metadata, base, at, ttl (milliseconds)}. No row: there is no such level that takes entries, or (with `keyed`) the
// doc: entry exists.
// option: keyed  where an entry (id) is not there yet
// option: locked  with a lock of the stream, which only servers need
// param: level string, stream string
// returns: id string, seq integer
MATCH (l:Level {id: $level})
MATCH (t:Stream {id: $stream})
WITH l, t, l.ns AS ns WHERE ns = $ns      //? locked
SET t.ns = $ns                            //? locked
WITH l, t                                 //? locked
OPTIONAL MATCH (o:Entry {id: $id})        //? keyed
WITH l, t, o WHERE o IS NULL              //? keyed
UNWIND $rows AS row
WITH l, t, row, t.last + row.place AS seq, t.last + size($rows) AS upto, l.ns AS ns, l.holds AS holds
WHERE ns = $ns AND holds = 'entries'
SET t.last = upto
CREATE (e:Entry {id: row.id, ns: $ns, created_at: $now, level: $level, key: row.key, content: row.content, format: row.format,
  text: row.text, said: row.said, tags: row.tags, tagset: row.tagset, metadata: row.metadata, base: row.base, at: row.at,
  expires_at: row.at + coalesce(row.ttl, l.ttl), reads: 0, last_read_at: null, seq: seq})-[:IN]->(l)
CREATE (:Event {id: $stream + ':' + toString(seq), ns: $ns, created_at: $now, stream: $stream, seq: seq, kind: 'entry', subject: row.id,
  value: row.base, at: row.at})
RETURN e.id AS id, seq
ORDER BY seq;

// name: entries.replace
// mode: write
// doc: Replaces the content of entries in a level whose stream is locked, each with an event; edges stay. Rows as in entries.add.
// param: level string, stream string
// returns: id string, seq integer
MATCH (l:Level {id: $level})
MATCH (t:Stream {id: $stream})
WITH l, t, l.ns AS ns WHERE ns = $ns
WITH l, t, t.last AS last, t.last + size($rows) AS upto
SET t.last = upto
WITH l, last
UNWIND $rows AS row
WITH l, row, last + row.place AS seq
MATCH (e:Entry {id: row.id})
WITH e, row, seq, row.at + coalesce(row.ttl, l.ttl) AS expires_at
SET e.content = row.content, e.format = row.format, e.text = row.text, e.said = row.said, e.tags = row.tags, e.tagset = row.tagset,
    e.metadata = row.metadata, e.base = row.base, e.at = row.at, e.expires_at = expires_at, e.reads = 0, e.last_read_at = null, e.seq = seq
CREATE (:Event {id: $stream + ':' + toString(seq), ns: $ns, created_at: $now, stream: $stream, seq: seq, kind: 'entry', subject: row.id,
  other: null, value: row.base, success: null, at: row.at, data: null})
RETURN e.id AS id, seq
ORDER BY seq;

// name: entries.get
// doc: Entries by id, with their relevance now.
// returns: entry_columns
MATCH (e:Entry)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:IN]->(l:Level)
RETURN entry_columns(e, l)
ORDER BY at, id;

// name: entries.evidence
// doc: What entries (ids) were made from, what was made from them, and what they became: {id, episode (its source key), domain, fact}.
// returns: id string, made_from list, makes list, became list
MATCH (e:Entry)
WHERE e.id IN $ids AND toString(e.ns) = $ns
OPTIONAL MATCH (e)-[:MADE_FROM]->(s:Entry)
WITH e, s ORDER BY s.id
WITH e, collect(s.id) AS made_from
OPTIONAL MATCH (e)<-[:MADE_FROM]-(m:Entry)
WITH e, made_from, m ORDER BY m.id
WITH e, made_from, collect(m.id) AS makes
OPTIONAL MATCH (e)-[:BECAME]->(n)
WITH e, made_from, makes, n ORDER BY n.id
WITH e, made_from, makes,
     collect(CASE WHEN n IS NULL THEN null ELSE {id: n.id, episode: n.source_key, domain: n.domain, fact: n.fact} END) AS became
RETURN e.id AS id, made_from, makes, became
ORDER BY id;

// name: entries.matching
// doc: Entries that match a question, the most relevant first.
// option: within  only some entries (ids)
// option: tagged  with one of some sets of tags, as JSON
// option: pattern whose key matches a pattern
// option: since  from a time on
// option: until  before a time
// option: at_least of some relevance at least
// option: living  that have not expired
// param: levels list, tagsets list, prefix string, pattern string, since integer, until integer, at_least float
// returns: entry_columns
//? !within
MATCH (l:Level)
WHERE l.id IN $levels AND toString(l.ns) = $ns
MATCH (l)<-[:IN]-(e:Entry)
//? within
MATCH (e:Entry)
WHERE e.id IN $ids AND toString(e.ns) = $ns AND e.level IN $levels
MATCH (e)-[:IN]->(l:Level)
//?
WITH e, l
WHERE true
  AND e.tagset IN $tagsets                                           //? tagged
  AND e.key STARTS WITH $prefix AND e.key =~ $pattern                //? pattern
  AND e.at >= $since                                                 //? since
  AND e.at < $until                                                  //? until
  AND relevance(e, l, $now) >= $at_least                             //? at_least
  AND (living(e.expires_at, $now))                                   //? living
RETURN entry_columns(e, l)
ORDER BY relevance DESC, at DESC, id
LIMIT $limit;

// name: entries.fitting
// doc: All entries of levels that match a question, in no order.
// option: pattern whose key matches a pattern
// option: since  from a time on
// option: until  before a time
// option: at_least of some relevance at least
// option: living  that have not expired
// param: levels list, prefix string, pattern string, since integer, until integer, at_least float
// returns: id string
MATCH (l:Level)
WHERE l.id IN $levels AND toString(l.ns) = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH e, l
WHERE true
  AND e.key STARTS WITH $prefix AND e.key =~ $pattern                //? pattern
  AND e.at >= $since                                                 //? since
  AND e.at < $until                                                  //? until
  AND relevance(e, l, $now) >= $at_least                             //? at_least
  AND (living(e.expires_at, $now))                                   //? living
RETURN e.id AS id;

// name: entries.held
// doc: The searched texts of the entries of a level, or of those that events (ids) stored.
// option: stored  those that events stored, and that are there
// returns: id string, key string, text string, tagset string, seq integer
//? !stored
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
//? stored
MATCH (x:Event)
WHERE x.id IN $ids AND toString(x.ns) = $ns AND x.kind = 'entry'
MATCH (e:Entry {id: x.subject})
//?
RETURN DISTINCT e.id AS id, e.key AS key, e.text AS text, e.tagset AS tagset, e.seq AS seq;

// name: entries.texts
// doc: The words of all entries, and of facts.
// returns: text string
MATCH (e:Entry)
WHERE e.ns = $ns
RETURN DISTINCT e.text AS text
UNION
MATCH (k:Knowledge)
WHERE k.ns = $ns
RETURN DISTINCT k.fact AS text;
