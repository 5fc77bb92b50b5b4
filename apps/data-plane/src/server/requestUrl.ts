/** A request's target in its parts. */
export interface RequestUrl {
  readonly path: string;
  /** With its question mark; empty if there is none. */
  readonly query: string;
}

export function splitUrl(url: string): RequestUrl {
  const question = url.indexOf('?');
  return question < 0
    ? { path: url, query: '' }
    : { path: url.slice(0, question), query: url.slice(question) };
}
