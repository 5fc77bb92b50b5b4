type Element = string | number | bigint | boolean | Date | null | undefined;

/**
 * A column of values as Postgres reads an array: one parameter for a whole column costs a fraction of one for each value.
 * Texts must not hold a NUL, which Postgres keeps nowhere.
 */
export function arrayLiteral(values: readonly Element[]): string {
  let literal = '{';
  for (let at = 0; at < values.length; at++) {
    if (at > 0) literal += ',';
    literal += arrayElement(values[at]);
  }
  return `${literal}}`;
}

const SPECIAL = /["\\]/;
const EACH_SPECIAL = /["\\]/g;

/** A value as it stands in such an array. */
function arrayElement(value: Element): string {
  switch (typeof value) {
    case 'string':
      return SPECIAL.test(value) ? `"${value.replace(EACH_SPECIAL, '\\$&')}"` : `"${value}"`;
    case 'object':
      return value === null ? 'NULL' : value.toISOString();
    case 'undefined':
      return 'NULL';
    default:
      return String(value);
  }
}
