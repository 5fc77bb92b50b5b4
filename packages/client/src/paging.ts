/** A page of any list of the service. */
export interface PageOf<T> {
  readonly data: readonly T[];
  /** Empty on the last page. */
  readonly next_page_token: string;
}

/** Every page of a list, one after the other, each asked for when it is wanted. */
export async function* pages<T>(
  page: (pageToken: string) => Promise<PageOf<T>>,
): AsyncGenerator<readonly T[], void, void> {
  let token = '';
  do {
    const { data, next_page_token: next } = await page(token);
    yield data;
    if (next !== '' && next === token) throw new Error('the list gave out the same page twice');
    token = next;
  } while (token !== '');
}

/** Every item of a list, whatever the number of its pages. */
export async function allItems<T>(page: (pageToken: string) => Promise<PageOf<T>>): Promise<T[]> {
  const items: T[] = [];
  for await (const data of pages(page)) items.push(...data);
  return items;
}
