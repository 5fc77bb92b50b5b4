/** The query string of a request's target, with its question mark; empty where there is none. */
export function queryOf(url: string): string {
  const question = url.indexOf('?');
  return question < 0 ? '' : url.slice(question);
}
