const ORIGIN = 'http://console';
const ROOT = '/console/';
/** The cookie that keeps it has little room. */
const MAX_CHARACTERS = 1_500;

/** A path of the console to go on at after a sign-in. Whatever leads elsewhere counts as the first page. */
export function safeReturnTo(text: string | undefined): string {
  if (text === undefined || !URL.canParse(text, ORIGIN)) return ROOT;
  // What the browser would make of it, without line breaks, dots and backslashes.
  const { origin, pathname, search, hash } = new URL(text, ORIGIN);
  const isPage = pathname.startsWith(ROOT) && !pathname.startsWith(`${ROOT}sign-in`);
  const path = `${pathname}${search}${hash}`;
  return origin === ORIGIN && isPage && path.length <= MAX_CHARACTERS ? path : ROOT;
}
