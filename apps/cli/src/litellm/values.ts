/** A field's text; undefined if it is empty. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' && value !== 'null' ? value.trim() : undefined;
}

/** Also as a cell of a CSV. */
export function isTrue(value: unknown): boolean {
  return value === true || value === 'true' || value === 't';
}
