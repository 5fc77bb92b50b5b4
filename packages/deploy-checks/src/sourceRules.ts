/** A fault of the source, as `file: what`. */
export type Fault = string;

/** What may look as if it broke a rule, and does not: by file, a part of the line. */
/* biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are texts of source. */
const EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  // The text of a migration, from a file of the release.
  'packages/database/src/migrate.ts': ['sql.raw(text)'],
  // Quoted as an identifier by the driver, since LISTEN takes no parameters.
  'packages/database/src/listen.ts': ['`LISTEN ${pg.escapeIdentifier(channel)}`'],
  // The name of a database on this machine, before there is any service.
  'packages/local-postgres/src/cluster.ts': ['`CREATE DATABASE "${database}"`'],
  // Names of columns and outcomes out of lists in the source.
  'packages/ledger/src/spend/ledgerFilter.ts': ['sql.lit(name)'],
  'packages/ledger/src/spend/usageByHour.ts': ['sql.lit(dimension)', 'sql.lit(outcome)', 'sql.raw(type)'],
  'packages/ledger/src/spend/spendSql.ts': ['sql.lit(dimension)'],
  // Where a page ends is no secret.
  'packages/client/src/paging.ts': ['next === token'],
};
/* biome-ignore-end lint/suspicious/noTemplateCurlyInString: these are texts of source. */

const VERB =
  '(?:SELECT|INSERT|UPDATE|DELETE|WITH|COPY|CREATE|ALTER|DROP|TRUNCATE|LISTEN|NOTIFY|SET|FETCH|DECLARE)';

/**
 * SQL gets its values by parameters: its text is a template tagged `sql`, which makes parameters of what it holds, or a
 * constant of a module (`const NAME = …`), which is there before any request. Everything else is a fault.
 */
const SQL_RULES: readonly (readonly [pattern: RegExp, what: string])[] = [
  [/\bsql\s*\.\s*raw\([^)]*\)?/g, 'SQL that is not tagged'],
  [/\bsql\s*\.\s*lit\((?![A-Z][A-Z0-9_]*\))[^)]*\)?/g, 'a value in the text of SQL'],
  [/\bCompiledQuery\s*\.\s*raw\(\s*(?![A-Z][A-Z0-9_]*\b)[^,)]*/g, 'SQL that is no constant'],
  [/\.query\(\s*(?!['"`A-Z{])[^,)]+/g, 'SQL that is no constant'],
  [
    new RegExp(
      `(?<!\\bsql(?:<[^\`]{0,300}>)?)(?<!^const [A-Z][A-Z0-9_]* = )\`\\s*${VERB}\\s[^\`]*?\\$\\{[^\`]*\``,
      'gm',
    ),
    'SQL with something pasted in',
  ],
  [new RegExp(`['"]\\s*${VERB}\\s[^'"\\n]*['"]\\s*\\+`, 'g'), 'SQL that is put together'],
];

/** An ordinary comparison ends at the first difference, and so tells a guesser how far it got. */
const COMPARISON = /([\w.$?]+|['"]{2})\s*[!=]==?\s*([\w.$?]+|['"])/g;
const SECRET = /(?:token|secret|password|pepper|credential|apiKey|hmac|signature)$/i;
/** What is written down in the source is no secret: mostly that there is none. */
const KNOWN = /^(?:undefined|null|true|false|\d.*|['"].*)$/;

export function faultsOf(file: string, text: string): Fault[] {
  const excepted = EXCEPTIONS[file] ?? [];
  const sql = SQL_RULES.flatMap(([pattern, what]) =>
    [...text.matchAll(pattern)].map(([found]) => [what, found.trim()] as const),
  );
  const comparisons = [...text.matchAll(COMPARISON)]
    .filter(([, left = '', right = '']) => [left, right].some((side) => SECRET.test(side)))
    .filter(([, left = '', right = '']) => ![left, right].some((side) => KNOWN.test(side)))
    .map(([found]) => ['a secret is compared in a time that tells', found] as const);
  return [...sql, ...comparisons]
    .filter(([, found]) => !excepted.some((part) => found.includes(part)))
    .map(([what, found]) => `${file}: ${what}: ${found.slice(0, 80)}`);
}

/** The exceptions that nothing needs any more. */
export function idleExceptions(texts: ReadonlyMap<string, string>): string[] {
  return Object.entries(EXCEPTIONS).flatMap(([file, parts]) =>
    parts.filter((part) => !texts.get(file)?.includes(part)).map((part) => `${file}: ${part}`),
  );
}
