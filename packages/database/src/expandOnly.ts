/** A migration declares by this line that it contracts: `-- contract: requires 0041-new-column`. */
const CONTRACT = /^-- contract: requires (\S+)$/m;
const NAME = String.raw`(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:ONLY\s+)?"?(\w+)"?`;

/** Each row gets a value of its own. */
const VOLATILE = String.raw`\bDEFAULT \(?(gen_random_uuid|random|clock_timestamp|nextval|uuid\w*)\(|\b(big|small)?serial\b|\bSTORED\b`;

/**
 * The migration that a release must have to run on the schema after this one; undefined if this one only expands, so that every
 * earlier release may.
 */
export function requiredMigration(text: string): string | undefined {
  return CONTRACT.exec(text)?.[1];
}

/**
 * What of a migration would break a release that does not know it, as messages; empty if it only expands. A check of words, not of
 * meaning: what a trigger or an UPDATE does to an earlier release is for the reviewer.
 */
export function contractions(text: string): string[] {
  const statements = statementsOf(text);
  const created = new Set(statements.flatMap((statement) => createdTable(statement) ?? []));
  const added = new Set(statements.flatMap(addedColumns));
  return statements.flatMap((statement) => contractionsOf(statement, created, added));
}

/** Without comments, strings and the bodies of functions, in which a semicolon ends nothing. */
function statementsOf(text: string): string[] {
  return text
    .replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
    .replaceAll(/--[^\n]*/g, ' ')
    .replaceAll(/\/\*[\s\S]*?\*\//g, ' ')
    .replaceAll(/'(?:[^']|'')*'/g, "''")
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim())
    .filter((statement) => statement !== '');
}

function createdTable(statement: string): string | undefined {
  return match(statement, `^CREATE (?:UNLOGGED |TEMP(?:ORARY)? )?TABLE ${NAME}`)?.[1]?.toLowerCase();
}

function addedColumns(statement: string): string[] {
  const columns = statement.matchAll(new RegExp(String.raw`\bADD COLUMN ${NAME}`, 'gi'));
  return Array.from(columns, ([, name = '']) => name.toLowerCase());
}

function contractionsOf(
  statement: string,
  created: ReadonlySet<string>,
  added: ReadonlySet<string>,
): string[] {
  const dropped = match(statement, String.raw`^(DROP|TRUNCATE)\b(.*)`);
  if (dropped) return [`${dropped[1]?.toUpperCase()}: ${statement}`];
  if (match(statement, String.raw`^DELETE\b`)) return [`deletes rows: ${statement}`];
  const unique = match(statement, String.raw`^CREATE UNIQUE INDEX .*?\bON ${NAME}(.*)`);
  if (unique) {
    const isNew = created.has(unique[1]?.toLowerCase() ?? '') || mentions(unique[2] ?? '', added);
    return isNew ? [] : [`a unique index can refuse what an earlier release writes: ${statement}`];
  }
  const altered = match(statement, `^ALTER TABLE ${NAME}(.*)`);
  if (altered) {
    const [, table = '', actions = ''] = altered;
    return created.has(table.toLowerCase())
      ? []
      : actionsOf(actions).flatMap((action) => alterations(action, statement, added));
  }
  return match(statement, String.raw`^ALTER .*\b(RENAME|DROP)\b`)
    ? [`changes what is used: ${statement}`]
    : [];
}

function alterations(action: string, statement: string, added: ReadonlySet<string>): string[] {
  // It is widened, which is for the reviewer to see.
  if (match(action, '^DROP CONSTRAINT ')) return [];
  if (match(action, String.raw`^(DROP|RENAME|SET SCHEMA)\b`)) return [`takes away: ${action}`];
  if (match(action, String.raw`^ALTER (?:COLUMN )?\S+ (?:SET DATA )?(TYPE|SET NOT NULL|DROP DEFAULT)\b`)) {
    return [`changes a column: ${action}`];
  }
  if (match(action, String.raw`^ADD (CONSTRAINT|CHECK|UNIQUE|FOREIGN|PRIMARY|EXCLUDE)\b`)) {
    const replaced = match(action, `^ADD CONSTRAINT ${NAME}`)?.[1];
    const isReplaced =
      replaced !== undefined &&
      match(statement, String.raw`\bDROP CONSTRAINT (?:IF EXISTS )?"?${replaced}\b`);
    return isReplaced || mentions(action, added)
      ? []
      : [`a constraint can refuse what an earlier release writes: ${action}`];
  }
  if (!match(action, String.raw`^ADD\b`)) return [];
  if (match(action, VOLATILE)) return [`rewrites the table: ${action}`];
  return match(action, String.raw`\bNOT NULL\b`) && !match(action, String.raw`\b(DEFAULT|GENERATED)\b`)
    ? [`a column without a default: ${action}`]
    : [];
}

/** The parts of ALTER TABLE between commas outside of parentheses. */
function actionsOf(actions: string): string[] {
  const parts: string[] = [''];
  let depth = 0;
  for (const character of actions) {
    if (character === '(') depth++;
    if (character === ')') depth--;
    if (character === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim());
}

function mentions(text: string, names: ReadonlySet<string>): boolean {
  return (text.toLowerCase().match(/\w+/g) ?? []).some((word) => names.has(word));
}

function match(text: string, pattern: string): RegExpExecArray | null {
  return new RegExp(pattern, 'i').exec(text);
}
