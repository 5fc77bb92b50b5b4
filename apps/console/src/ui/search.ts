import { useNavigate, useSearch as useRouterSearch } from '@tanstack/react-router';

/** The query of the address, by name. */
export type Search = Readonly<Record<string, string | undefined>>;

/** What a page shows is in its address, so that a link shows the same. A filter that changes starts at the first page. */
export function useSearch(): readonly [Search, (changes: Search) => void] {
  const search = useRouterSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const set = (changes: Search) => {
    const next = { ...search, page_token: undefined, ...changes };
    const given = Object.entries(next).filter(([, value]) => value !== undefined && value !== '');
    void navigate({ to: '.', search: Object.fromEntries(given) as never });
  };
  return [search, set];
}

export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text));
}

export function formatSearch(search: Record<string, unknown>): string {
  const given = Object.entries(search).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

/** Of the address, what an operation takes. */
export function given(search: Search, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (search[name] ? [[name, search[name]]] : [])));
}
