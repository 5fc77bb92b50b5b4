/** A row of a table of routes. */
export interface RouteTemplate {
  readonly method: string;
  /** May have one placeholder: `{id}` stands for one segment, any other for a name, which may have slashes in it. */
  readonly path: string;
}

/** What is served at a path. */
export interface ServedPath<Route> {
  /** By method. */
  readonly routes: ReadonlyMap<string, Route>;
  /** One of them. */
  readonly any: Route;
  /** Its methods, for the header `Allow`. */
  readonly allow: string;
  /** What the placeholder stands for, decoded; empty if the path has none. */
  readonly name: string;
}

interface Pattern<Route> {
  readonly before: string;
  readonly after: string;
  readonly isSegment: boolean;
  readonly served: ServedPath<Route>;
}

/**
 * Finds what a table serves at a path, as it stands in a request, without its query. A path is at most as long as the head of
 * a request, and each look at it takes time in proportion to its length. One slash at the end is ignored. A path without a
 * placeholder goes before patterns, and a longer pattern before a shorter one.
 */
export function createRouter<Route extends RouteTemplate>(
  table: readonly Route[],
): (path: string) => ServedPath<Route> | undefined {
  const exact = new Map<string, ServedPath<Route>>();
  const patterns: Pattern<Route>[] = [];
  for (const any of new Map(table.map((route) => [route.path, route])).values()) {
    const { path } = any;
    const served = servedPath(
      any,
      table.filter((route) => route.path === path),
    );
    const pattern = patternOf(path, served);
    if (pattern) patterns.push(pattern);
    else exact.set(path, served);
  }
  patterns.sort((a, b) => literalLength(b) - literalLength(a));

  const findUnusual = (path: string): ServedPath<Route> | undefined => {
    const [plain = ''] = path.split('#', 1);
    const decoded = withoutLastSlash(decodeUnreserved(plain));
    const served = exact.get(decoded);
    if (served) return served;
    for (const pattern of patterns) {
      const name = nameIn(decoded, pattern);
      if (name !== undefined) return { ...pattern.served, name: decodeName(name) };
    }
    return undefined;
  };
  return (path) => exact.get(path) ?? findUnusual(path);
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

function servedPath<Route extends RouteTemplate>(any: Route, rows: readonly Route[]): ServedPath<Route> {
  const routes = new Map(rows.map((route) => [route.method, route]));
  const get = routes.get('GET');
  if (get) routes.set('HEAD', get);
  return { routes, any, allow: METHODS.filter((method) => routes.has(method)).join(', '), name: '' };
}

function patternOf<Route>(path: string, served: ServedPath<Route>): Pattern<Route> | undefined {
  const open = path.indexOf('{');
  if (open < 0) return undefined;
  const close = path.indexOf('}', open);
  const isSegment = path.slice(open, close + 1) === '{id}';
  return { before: path.slice(0, open), after: path.slice(close + 1), isSegment, served };
}

function literalLength({ before, after }: Pattern<unknown>): number {
  return before.length + after.length;
}

function nameIn(path: string, { before, after, isSegment }: Pattern<unknown>): string | undefined {
  if (path.length < before.length + after.length || !path.startsWith(before) || !path.endsWith(after))
    return undefined;
  const name = path.slice(before.length, path.length - after.length);
  // Google's `:method` needs a model before it.
  if (name === '' && after.startsWith(':')) return undefined;
  return isSegment && name.includes('/') ? undefined : name;
}

function withoutLastSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

/**
 * Decodes what means the same if it is encoded (RFC 3986, section 6.2.2.2); `%2F` and the like stay. In a path that can't be
 * decoded, a NUL stands for each `%`: a malformed name is one that does not exist, and can't be created.
 */
function decodeUnreserved(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURI(path.replaceAll('%25', '%2525'));
  } catch {
    return path.replaceAll('%', '\0');
  }
}

/** Decodes what `decodeUnreserved` left. */
function decodeName(name: string): string {
  return name.includes('%') ? decodeURIComponent(name) : name;
}
