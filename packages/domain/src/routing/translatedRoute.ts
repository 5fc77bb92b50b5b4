/**
 * The routes to which a request can be translated that came on a route which its connector does not serve: the vendor's own, before
 * those that it has for other vendors' clients.
 */
export const TRANSLATED_ROUTES = [
  'messages',
  'generate_content',
  'chat_completions',
  'responses',
  'converse',
] as const;
export type TranslatedRoute = (typeof TRANSLATED_ROUTES)[number];

/** Providers whose chat completions lack what their responses have, such as reasoning that can be sent back. */
const PREFER_RESPONSES: ReadonlySet<string> = new Set(['azure', 'openai']);

/** The route to which requests for a connector are translated; undefined if there is none. */
export function translatedRoute(
  provider: string,
  serves: (route: TranslatedRoute) => boolean,
): TranslatedRoute | undefined {
  if (PREFER_RESPONSES.has(provider) && serves('responses')) return 'responses';
  return TRANSLATED_ROUTES.find(serves);
}

export function isTranslatedRoute(route: string): route is TranslatedRoute {
  return (TRANSLATED_ROUTES as readonly string[]).includes(route);
}
