/**
 * The names that were chosen: those that equal one of the texts, or, if none equals it, those that start with it. Letters
 * may be large or small. Throws if a text names nothing.
 */
export function chosen(names: readonly string[], texts: readonly string[]): string[] {
  return texts.flatMap((text) => {
    const wanted = text.toLowerCase();
    const equal = names.filter((name) => name.toLowerCase() === wanted);
    const found = equal.length > 0 ? equal : names.filter((name) => name.toLowerCase().startsWith(wanted));
    if (found.length === 0) throw new Error(`nothing is called ${text}: choose among ${names.join(', ')}`);
    return found;
  });
}
