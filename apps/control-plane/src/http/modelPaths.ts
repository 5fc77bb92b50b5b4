/**
 * Encodes the slashes of a model id in a path, so that routes see it as one segment: `/catalog/models/acme/a/b/prices`
 * becomes `/catalog/models/acme%2Fa%2Fb/prices`. The id of a model whose name ends in `/prices` must be sent encoded.
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
