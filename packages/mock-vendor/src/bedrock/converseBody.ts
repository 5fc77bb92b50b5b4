/** A member of a request to Converse: its own members, a list, or anything. */
type Schema =
  | 'any'
  | { readonly list: Schema; readonly least?: number }
  | { readonly fields: Readonly<Record<string, Schema>>; readonly required?: readonly string[] }
  /** An object with exactly one of these members. */
  | { readonly oneOf: Readonly<Record<string, Schema>> };

const any = (names: string): Record<string, Schema> =>
  Object.fromEntries(names.split(' ').map((name) => [name, 'any' as const]));
const struct = (fields: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema => ({
  fields,
  required,
});

const BYTES: Schema = { oneOf: any('bytes s3Location') };
const IMAGE = struct({ format: 'any', source: BYTES }, ['format', 'source']);
const DOCUMENT = struct(
  { ...any('format name context citations'), source: { oneOf: any('bytes s3Location text content') } },
  ['name', 'source'],
);
const RESULT = struct(
  {
    ...any('toolUseId status type'),
    content: {
      list: { oneOf: { ...any('json text video searchResult'), image: IMAGE, document: DOCUMENT } },
    },
  },
  ['toolUseId', 'content'],
);
const BLOCK: Schema = {
  oneOf: {
    ...any('text video audio guardContent cachePoint citationsContent searchResult'),
    image: IMAGE,
    document: DOCUMENT,
    toolUse: struct(any('toolUseId name input type'), ['toolUseId', 'name', 'input']),
    toolResult: RESULT,
    reasoningContent: {
      oneOf: { reasoningText: struct(any('text signature'), ['text']), redactedContent: 'any' },
    },
  },
};
const TOOL = struct({ ...any('name description strict'), inputSchema: { oneOf: any('json') } }, [
  'name',
  'inputSchema',
]);
/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html */
const BODY = struct({
  ...any('guardrailConfig additionalModelRequestFields promptVariables additionalModelResponseFieldPaths'),
  ...any('requestMetadata performanceConfig serviceTier'),
  messages: { list: struct({ role: 'any', content: { list: BLOCK, least: 1 } }, ['role', 'content']) },
  system: { list: { oneOf: any('text guardContent cachePoint') } },
  inferenceConfig: struct(any('maxTokens temperature topP stopSequences')),
  toolConfig: struct(
    {
      tools: { list: { oneOf: { toolSpec: TOOL, ...any('systemTool cachePoint') } }, least: 1 },
      toolChoice: { oneOf: any('auto any tool') },
    },
    ['tools'],
  ),
  outputConfig: struct(any('textFormat effort')),
});

type Fields = Readonly<Record<string, unknown>>;

/** What Bedrock says of a request to Converse that it refuses; undefined if it takes it. */
export function converseFault(body: Fields): string | undefined {
  const wrong = schemaFault(body, BODY, '#');
  if (wrong !== undefined)
    return `Malformed input request: ${wrong}, please reformat your input and try again.`;
  const messages = (body.messages ?? []) as { role: string; content: Fields[] }[];
  if (messages[0]?.role !== 'user') {
    return 'A conversation must start with a user message. Try again with a conversation that starts with a user message.';
  }
  for (const [at, { role, content }] of messages.entries()) {
    if (at > 0 && messages[at - 1]?.role === role) {
      return 'A conversation must alternate between user and assistant roles.';
    }
    const why = contentFault(content, messages[at + 1]?.content ?? [], role);
    if (why !== undefined) return `messages.${at}: ${why}`;
  }
  const hasCalls = messages.some(({ content }) =>
    content.some((block) => 'toolUse' in block || 'toolResult' in block),
  );
  return hasCalls && body.toolConfig === undefined
    ? 'The toolConfig field must be defined when using toolUse and toolResult content blocks.'
    : undefined;
}

/** How many cache points a request may have. */
const MAX_CACHE_POINTS = 4;

interface Refusal {
  readonly code: string;
  readonly message: string;
}

/**
 * What Bedrock says of cache points: few models take them, and of those but Claude none for an hour or among the tools
 * (https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html).
 */
export function cachePointFault(body: Fields, isTaken: boolean): Refusal | undefined {
  const {
    system = [],
    messages = [],
    toolConfig,
  } = body as {
    system?: Fields[];
    messages?: { content: Fields[] }[];
    toolConfig?: { tools: Fields[] };
  };
  const inTools = (toolConfig?.tools ?? []).findIndex((tool) => 'cachePoint' in tool);
  const points = [...system, ...messages.flatMap(({ content }) => content)].flatMap(
    ({ cachePoint }) => (cachePoint ?? []) as { type?: string; ttl?: string },
  );
  if (!isTaken && (points.length > 0 || inTools >= 0)) {
    const message =
      'You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.';
    return { code: 'AccessDeniedException', message };
  }
  const invalid = (message: string) => ({ code: 'ValidationException', message });
  if (inTools >= 0) {
    return invalid(
      `Malformed input request: #/toolConfig/tools/${inTools}: extraneous key [cachePoint] is not permitted, please reformat your input and try again.`,
    );
  }
  if (points.some(({ type }) => type !== 'default')) return invalid('cachePoint.type must be default');
  if (points.some(({ ttl }) => ttl === '1h')) {
    return invalid('Extended TTL prompt caching is only supported for Anthropic models');
  }
  return points.length > MAX_CACHE_POINTS
    ? invalid(`The request has more than ${MAX_CACHE_POINTS} cache points.`)
    : undefined;
}

function contentFault(content: readonly Fields[], next: readonly Fields[], role: string): string | undefined {
  if (content.some(({ text }) => typeof text === 'string' && text.trim() === '')) {
    return 'The text field in the ContentBlock object is blank.';
  }
  for (const { document, toolUse } of content as {
    document?: { name: string };
    toolUse?: { toolUseId: string };
  }[]) {
    if (document && !/^[a-zA-Z0-9 ()[\]-]{1,200}$/.test(document.name)) return 'document name is not valid';
    if (!toolUse) continue;
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(toolUse.toolUseId)) return 'toolUseId failed to satisfy constraint';
    const isAnswered = next.some(
      ({ toolResult }) => (toolResult as { toolUseId?: string } | undefined)?.toolUseId === toolUse.toolUseId,
    );
    if (role !== 'assistant' || !isAnswered) return 'Expected toolResult blocks for the toolUse Ids';
  }
  const hasDocument = content.some((block) => 'document' in block);
  return hasDocument && !content.some((block) => 'text' in block)
    ? 'The message must contain a text block when it contains a document.'
    : undefined;
}

function schemaFault(value: unknown, schema: Schema, path: string): string | undefined {
  if (schema === 'any') return undefined;
  if ('list' in schema) {
    if (!Array.isArray(value)) return `${path}: expected type: JSONArray`;
    if (value.length < (schema.least ?? 0)) return `${path}: expected minimum item count: ${schema.least}`;
    return firstOf(value.map((item, at) => schemaFault(item, schema.list, `${path}/${at}`)));
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return `${path}: expected type: JSONObject`;
  const known = 'oneOf' in schema ? schema.oneOf : schema.fields;
  const names = Object.keys(value);
  const unknown = names.find((name) => known[name] === undefined);
  if (unknown !== undefined) return `${path}: extraneous key [${unknown}] is not permitted`;
  if ('oneOf' in schema && names.length !== 1) return `${path}: exactly one member must be set`;
  const missing = 'required' in schema ? schema.required?.find((name) => !names.includes(name)) : undefined;
  if (missing !== undefined) return `${path}: required key [${missing}] not found`;
  return firstOf(
    Object.entries(value).map(([name, one]) => schemaFault(one, known[name] ?? 'any', `${path}/${name}`)),
  );
}

function firstOf(faults: readonly (string | undefined)[]): string | undefined {
  return faults.find((fault) => fault !== undefined);
}
