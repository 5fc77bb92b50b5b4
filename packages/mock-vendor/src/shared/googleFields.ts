import { isRecord, type JsonRecord } from './parameters.ts';
import { badRequest } from './vendorError.ts';

/** A message of Google's API: its fields, by their first spelling. `any` is free JSON, or a scalar. */
export type GoogleSchema =
  | 'any'
  | { readonly list: GoogleSchema }
  | { readonly fields: Readonly<Record<string, GoogleSchema>> };

const any = (names: string): Record<string, GoogleSchema> =>
  Object.fromEntries(
    names
      .trim()
      .split(/\s+/)
      .map((name) => [name, 'any' as const]),
  );

const BLOB = { fields: any('mimeType data displayName') };
const FILE = { fields: any('mimeType fileUri displayName') };
const PART: GoogleSchema = {
  fields: {
    ...any('text thought thoughtSignature videoMetadata mediaResolution executableCode codeExecutionResult'),
    ...any('toolCall toolResponse partMetadata'),
    inlineData: BLOB,
    fileData: FILE,
    functionCall: { fields: any('id name args') },
    functionResponse: {
      fields: {
        ...any('id name response willContinue scheduling'),
        parts: { list: { fields: { inlineData: BLOB, fileData: FILE } } },
      },
    },
  },
};
const CONTENT: GoogleSchema = { fields: { role: 'any', parts: { list: PART } } };
const TOOL: GoogleSchema = {
  fields: {
    functionDeclarations: {
      list: {
        fields: any('name description behavior parameters parametersJsonSchema response responseJsonSchema'),
      },
    },
    googleSearch: { fields: any('timeRangeFilter searchTypes') },
    googleSearchRetrieval: { fields: any('dynamicRetrievalConfig') },
    codeExecution: { fields: {} },
    urlContext: { fields: {} },
    fileSearch: { fields: any('fileSearchStoreNames metadataFilter topK') },
    ...any('googleMaps computerUse mcpServers'),
  },
};
const GENERATE: GoogleSchema = {
  fields: {
    ...any('model safetySettings cachedContent labels store serviceTier'),
    contents: { list: CONTENT },
    systemInstruction: CONTENT,
    tools: { list: TOOL },
    toolConfig: { fields: any('functionCallingConfig retrievalConfig includeServerSideToolInvocations') },
    generationConfig: {
      fields: {
        ...any('temperature topP topK candidateCount maxOutputTokens stopSequences presencePenalty'),
        ...any('frequencyPenalty seed responseLogprobs logprobs responseMimeType responseSchema'),
        ...any('responseJsonSchema responseModalities mediaResolution speechConfig imageConfig'),
        ...any('enableEnhancedCivicAnswers _responseJsonSchema'),
        thinkingConfig: { fields: any('includeThoughts thinkingBudget thinkingLevel') },
      },
    },
  },
};
const EMBED: GoogleSchema = {
  fields: { ...any('model taskType title outputDimensionality'), content: CONTENT },
};

/** The bodies of Gemini's operations. */
export const GOOGLE_BODIES = {
  generate: GENERATE,
  count: { fields: { contents: { list: CONTENT }, generateContentRequest: GENERATE } },
  embed: EMBED,
  embedBatch: { fields: { requests: { list: EMBED } } },
} as const satisfies Record<string, GoogleSchema>;

/**
 * A body with the first spelling of each field, which Google's APIs take in two. A strict vendor throws Google's 400 for any
 * other field.
 */
export function readGoogle(value: unknown, schema: GoogleSchema, strict: boolean, path = ''): JsonRecord {
  const read = normalised(value, schema, strict, path);
  if (!isRecord(read)) throw badRequest('Invalid JSON payload received. Expected an object.');
  return read;
}

function normalised(value: unknown, schema: GoogleSchema, strict: boolean, path: string): unknown {
  if (schema === 'any' || value === null || value === undefined) return value;
  if ('list' in schema) {
    if (!Array.isArray(value)) throw badRequest(`Invalid value at '${path}': expected a list.`);
    return value.map((item: unknown, at) => normalised(item, schema.list, strict, `${path}[${at}]`));
  }
  if (!isRecord(value)) throw badRequest(`Invalid value at '${path}': expected an object.`);
  const fields: Record<string, unknown> = {};
  for (const [name, one] of Object.entries(value)) {
    const first = inCamelCase(name);
    const inner = schema.fields[name] === undefined ? schema.fields[first] : schema.fields[name];
    if (inner === undefined) {
      if (!strict) continue;
      throw badRequest(
        `Invalid JSON payload received. Unknown name "${name}"${path && ` at '${path}'`}: Cannot find field.`,
      );
    }
    const key = schema.fields[name] === undefined ? first : name;
    if (Object.hasOwn(fields, key)) throw badRequest(`Invalid value at '${path}': "${key}" is already set.`);
    fields[key] = normalised(one, inner, strict, path ? `${path}.${key}` : key);
  }
  return fields;
}

function inCamelCase(name: string): string {
  return name.replaceAll(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}
