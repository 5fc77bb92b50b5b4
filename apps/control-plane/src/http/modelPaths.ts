/**
 * A model's id holds slashes. Where one stands in a path as it is, it is written as the one segment that the routes know:
 * `/catalog/models/acme/a/b/prices` becomes `/catalog/models/acme%2Fa%2Fb/prices`. A model whose own name ends in
 * `/prices` has to be written with `%2F`.
 */
export function encodeModelInPath(url: string): string {
  const match = MODEL_PATHS.exec(url);
  if (!match?.groups) return url;
  const { before = '', rest = '', query = '' } = match.groups;
  const path = rest.replace(/\/+$/, '');
  const isOfCatalog = before.endsWith('/catalog/models/');
  const prices = isOfCatalog && /^(?<model>.+)\/prices$/.exec(path);
  const model = prices ? (prices.groups?.model ?? '') : path;
  return `${before}${model.replaceAll('/', '%2F')}${prices ? '/prices' : ''}${query}`;
}

const MODEL_PATHS =
  /^(?<before>\/api\/v1\/(catalog\/models|connectors\/[^/?]+\/prices)\/)(?<rest>[^?]*)(?<query>\?.*)?$/s;
