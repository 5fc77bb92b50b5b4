/** Ids that differ in each run. */
const IDS =
  /\b(call|toolu|msg|resp|fc|rs|chatcmpl|req|item)([-_][A-Za-z0-9]{6,}|[0-9a-f]{32}\b)|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}/g;

/**
 * A body with its ids replaced, so that two runs can be compared; undefined without one. The order of the fields does not
 * count. A stream of chat completions asks for its usage in any case: the service does, for those that do not.
 */
export function comparable(text: string): unknown {
  if (text === '') return undefined;
  const body = JSON.parse(text.replace(IDS, '$1_ID')) as Record<string, unknown>;
  if (body.stream !== true || !('messages' in body) || !('stream_options' in body)) return body;
  const { stream_options: options, ...rest } = body;
  const { include_usage: _, ...others } = options as Record<string, unknown>;
  return Object.keys(others).length === 0 ? rest : { ...rest, stream_options: others };
}
