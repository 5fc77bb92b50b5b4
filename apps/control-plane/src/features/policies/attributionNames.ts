/** The name of a label, as `X-Svc-Labels` can give it: without blanks around it. */
const LABEL = /^(?!\s)[^=,\p{C}]{1,64}(?<!\s)$/u;

/** Whether a text names one of these, or a label: `labels.<name>`. */
export function isAttributionName(text: string, names: readonly string[], prefix = 'labels.'): boolean {
  if (names.includes(text)) return true;
  return text.startsWith(prefix) && LABEL.test(text.slice(prefix.length));
}

/** For an error: all that may be named. */
export function namesOf(names: readonly string[], prefix = 'labels.'): string {
  return [...names, `${prefix}<name>`].join(', ');
}
