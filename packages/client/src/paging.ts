/** A page of a list. */
export interface PageOf<T> {
  readonly data: readonly T[];
  /** Empty on the last page. */
  readonly next_page_token: string;
}

/** Iterates over the pages of a list. Each is fetched when it is needed. */
export async function* pages<T>(
  page: (pageToken: string) => Promise<PageOf<T>>,
): AsyncGenerator<readonly T[], void, void> {
  let token = '';
  do {
    const { data, next_page_token: next } = await page(token);
    yield data;
    if (next !== '' && next === token) throw new Error('the service returned the same page twice');
    token = next;
  } while (token !== '');
}

/** All items of a list, from all pages. */
export async function allItems<T>(page: (pageToken: string) => Promise<PageOf<T>>): Promise<T[]> {
  const items: T[] = [];
  for await (const data of pages(page)) items.push(...data);
  return items;
}
