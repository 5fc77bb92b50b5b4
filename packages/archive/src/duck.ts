/** A statement for DuckDB, or a part of one, in which all values are quoted. */
export class DuckSql {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = DuckSql | string | number | boolean | Date;

/**
 * SQL for DuckDB: a value becomes a literal, and a part stays as it is. DuckDB's parameters can't be used: binding fails for one that
 * the optimizer has removed, as it does where a file's statistics decide a condition.
 */
export function duck(strings: TemplateStringsArray, ...values: readonly Value[]): DuckSql {
  const texts = values.map((value) => (value instanceof DuckSql ? value.text : literal(value)));
  return new DuckSql(strings.reduce((text, string, at) => text + texts[at - 1] + string));
}

/** A name of a column. */
duck.column = (name: string): DuckSql => new DuckSql(`"${withoutNul(name).replaceAll('"', '""')}"`);

duck.join = (values: readonly Value[], separator: DuckSql = COMMA): DuckSql =>
  new DuckSql(values.map((value) => duck`${value}`.text).join(separator.text));

const COMMA = new DuckSql(', ');

function literal(value: Exclude<Value, DuckSql>): string {
  // In a text, nothing but a quote is special.
  if (typeof value === 'string') return `'${withoutNul(value).replaceAll("'", "''")}'`;
  // It does not depend on the time zone of the process.
  if (value instanceof Date) return `TIMESTAMPTZ '${value.toISOString()}'`;
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    throw new Error(`${value} is not an integer`);
  return String(value);
}

function withoutNul(text: string): string {
  if (text.includes('\0')) throw new Error('a text contains a NUL character');
  return text;
}
