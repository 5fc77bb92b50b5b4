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

/** A query without the version that Azure's clients ask for: it is about their vendor's API, not about this one. */
export function withoutApiVersion(query: string): string {
  if (!query.includes('api-version')) return query;
  const rest = query
    .slice(1)
    .split('&')
    .filter((part) => !part.startsWith('api-version='));
  return rest.length > 0 ? `?${rest.join('&')}` : '';
}
