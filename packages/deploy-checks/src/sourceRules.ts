/** A rule violation in the source, as `file: message: text`. */
export type Fault = string;

/** False positives: by file, a part of the line. */
/* biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are texts of source. */
const EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  // The text of a migration, from a file of the release.
  'packages/database/src/migrate.ts': ['sql.raw(text)'],
  // Quoted as an identifier by the driver, since LISTEN takes no parameters.
  'packages/database/src/listen.ts': ['`LISTEN ${pg.escapeIdentifier(channel)}`'],
  // Statements that Kysely has compiled, with their values as parameters.
  'packages/database/src/preparingPool.ts': ['.query(client', '.query(text'],
  // The name of a database on this machine, created before any service runs.
  'packages/local-postgres/src/cluster.ts': ['`CREATE DATABASE "${database}"`'],
  // Names of columns and outcomes from lists in the source.
  'packages/ledger/src/spend/ledgerFilter.ts': ['sql.lit(name)'],
  'packages/ledger/src/spend/addToSums.ts': ['sql.raw(type.name)'],
  'packages/ledger/src/spend/usageSums.ts': ['sql.lit(dimension)', 'sql.lit(outcome)'],
  'packages/ledger/src/spend/spendSql.ts': ['sql.lit(dimension)', 'sql.raw(members'],
  'packages/ledger/src/maintenance/archiveDay.ts': ['sql.raw(STORED_VALUES)'],
  // A page token is no secret.
  'packages/client/src/paging.ts': ['next === token'],
};
/* biome-ignore-end lint/suspicious/noTemplateCurlyInString: these are texts of source. */

const VERB =
  '(?:SELECT|INSERT|UPDATE|DELETE|WITH|COPY|CREATE|ALTER|DROP|TRUNCATE|LISTEN|NOTIFY|SET|FETCH|DECLARE)';

/**
 * SQL gets values only as parameters: its text is a template tagged `sql`, which turns values into parameters (`duck`: into literals, for
 * DuckDB), or a module constant (`const NAME = …`), which exists before any request. Everything else is a violation.
 */
const SQL_RULES: readonly (readonly [pattern: RegExp, what: string])[] = [
  [/\bsql\s*\.\s*raw\([^)]*\)?/g, 'SQL without the sql tag'],
  [/\bsql\s*\.\s*lit\((?![A-Z][A-Z0-9_]*\))[^)]*\)?/g, 'a value in the text of SQL'],
  [/\bCompiledQuery\s*\.\s*raw\(\s*(?![A-Z][A-Z0-9_]*\b)[^,)]*/g, 'SQL that is not a constant'],
  [/\.query\(\s*(?!['"`A-Z{])[^,)]+/g, 'SQL that is not a constant'],
  [
    new RegExp(
      `(?<!\\b(?:sql(?:<[^\`]{0,300}>)?|duck))(?<!^const [A-Z][A-Z0-9_]* = )\`\\s*${VERB}\\s[^\`]*?\\$\\{[^\`]*\``,
      'gm',
    ),
    'SQL with an interpolated value',
  ],
  [new RegExp(`['"]\\s*${VERB}\\s[^'"\\n]*['"]\\s*\\+`, 'g'), 'concatenated SQL'],
];

/** An ordinary comparison stops at the first difference, so its duration reveals how much of a guess was right. */
const COMPARISON = /([\w.$?]+|['"]{2})\s*[!=]==?\s*([\w.$?]+|['"])/g;
const SECRET = /(?:token|secret|password|pepper|credential|apiKey|hmac|signature)$/i;
/** Literals are no secrets: these comparisons mostly check whether there is one. */
const KNOWN = /^(?:undefined|null|true|false|\d.*|['"].*)$/;

export function faultsOf(file: string, text: string): Fault[] {
  const excepted = EXCEPTIONS[file] ?? [];
  const sql = SQL_RULES.flatMap(([pattern, what]) =>
    [...text.matchAll(pattern)].map(([found]) => [what, found.trim()] as const),
  );
  const comparisons = [...text.matchAll(COMPARISON)]
    .filter(([, left = '', right = '']) => [left, right].some((side) => SECRET.test(side)))
    .filter(([, left = '', right = '']) => ![left, right].some((side) => KNOWN.test(side)))
    .map(([found]) => ['a secret is not compared in constant time', found] as const);
  return [...sql, ...comparisons]
    .filter(([, found]) => !excepted.some((part) => found.includes(part)))
    .map(([what, found]) => `${file}: ${what}: ${found.slice(0, 80)}`);
}

/** The exceptions that match nothing any more. */
export function unusedExceptions(texts: ReadonlyMap<string, string>): string[] {
  return Object.entries(EXCEPTIONS).flatMap(([file, parts]) =>
    parts.filter((part) => !texts.get(file)?.includes(part)).map((part) => `${file}: ${part}`),
  );
}
