import {
  bounded,
  count,
  describedByVendor,
  type Field,
  type Fields,
  fillsContext,
  free,
  freeFields,
  list,
  MAX_BATCH,
  MAX_TOOLS,
  model,
  type ObjectValue,
  object,
  only,
  priced,
  refersTo,
  serverTool,
  stored,
  storedUri,
  unbounded,
} from './field.ts';
import { MAX_CHOICES, MEDIA, OUTPUT_TOKENS, SERVICE_TIER } from './notes.ts';

/** Google's APIs take each field in two spellings: `maxOutputTokens` and `max_output_tokens`. */
function bothSpellings(fields: Fields): Fields {
  const both: Record<string, Field> = { ...fields };
  for (const [name, field] of Object.entries(fields)) {
    const other = snakeCase(name);
    if (other !== name) both[other] = { ...field, sameAs: name };
  }
  return both;
}

export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function message(fields: Fields): Field<ObjectValue<Fields>> {
  return object(bothSpellings(fields));
}

const SAME_MODEL = { ...model, cost: 'bounded', note: 'must be the model that the path names' } as const;
const INLINE_MEDIA = unbounded(MEDIA);
const FILE_URI = storedUri('a file that the vendor stores');
const FILE_MEDIA = refersTo(bothSpellings({ fileUri: FILE_URI }), unbounded(MEDIA));

/** What a client's function returned. */
const FUNCTION_RESPONSE = message({
  ...freeFields('id', 'name', 'response', 'willContinue', 'scheduling'),
  parts: list(message({ inlineData: INLINE_MEDIA, fileData: FILE_MEDIA })),
});

const PART = message({
  ...freeFields('text', 'thought', 'thoughtSignature', 'functionCall', 'partMetadata'),
  functionResponse: FUNCTION_RESPONSE,
  inlineData: INLINE_MEDIA,
  fileData: FILE_MEDIA,
  ...freeFields('videoMetadata', 'mediaResolution'),
  // What the vendor's tools did.
  executableCode: fillsContext,
  codeExecutionResult: fillsContext,
  toolCall: fillsContext,
  toolResponse: fillsContext,
});
const CONTENT = message({ role: free, parts: list(PART) });

const FUNCTION = message(
  freeFields(
    'name',
    'description',
    'behavior',
    'parameters',
    'parametersJsonSchema',
    'response',
    'responseJsonSchema',
  ),
);
const STORE_NAME: Field = { ...stored('a store of files at the vendor'), isPath: true, isMadeOutside: true };

/** Of Vertex AI: what it searches is stored there. */
const RETRIEVAL = bothSpellings({
  vertexAiSearch: message({
    datastore: STORE_NAME,
    engine: STORE_NAME,
    dataStoreSpecs: list(message({ dataStore: STORE_NAME })),
  }),
  vertexRagStore: message({
    ragCorpora: list(STORE_NAME),
    ragResources: list(message({ ragCorpus: STORE_NAME, ragFileIds: list(STORE_NAME) })),
  }),
});

/** One object may name several tools. */
const TOOL = message({
  functionDeclarations: list(FUNCTION, MAX_TOOLS),
  computerUse: describedByVendor(free),
  googleSearch: serverTool('google_search'),
  googleSearchRetrieval: serverTool('google_search'),
  googleMaps: serverTool('google_maps'),
  codeExecution: serverTool('code_execution'),
  urlContext: serverTool('url_context'),
  fileSearch: serverTool('file_search', undefined, {
    kind: 'object',
    fields: bothSpellings({ fileSearchStoreNames: STORE_NAME }),
  }),
  mcpServers: serverTool('mcp'),
  retrieval: refersTo(RETRIEVAL, unbounded('nothing bounds what it adds to the input')),
});

export const GENERATION_CONFIG = message({
  maxOutputTokens: count(OUTPUT_TOKENS),
  candidateCount: count('multiplies the output', MAX_CHOICES),
  thinkingConfig: message({
    ...freeFields('includeThoughts', 'thinkingLevel'),
    thinkingBudget: bounded('maxOutputTokens, which thinking counts towards'),
  }),
  responseModalities: list(only('TEXT')),
  speechConfig: bounded('audio, which responseModalities refuses'),
  imageConfig: bounded('images, which responseModalities refuses'),
  ...freeFields(
    'temperature',
    'topP',
    'topK',
    'seed',
    'stopSequences',
    'presencePenalty',
    'frequencyPenalty',
  ),
  ...freeFields('logprobs', 'responseLogprobs', 'responseMimeType', 'mediaResolution'),
  ...freeFields('responseSchema', 'responseJsonSchema', '_responseJsonSchema', 'responseFormat'),
  ...freeFields('enableEnhancedCivicAnswers'),
});

/** The body of `generateContent` (https://ai.google.dev/api/generate-content). */
export const GENERATE_CONTENT_FIELDS: Fields = bothSpellings({
  model: SAME_MODEL,
  contents: list(CONTENT),
  systemInstruction: CONTENT,
  generationConfig: GENERATION_CONFIG,
  tools: list(TOOL, MAX_TOOLS),
  toolConfig: message(
    freeFields('functionCallingConfig', 'retrievalConfig', 'includeServerSideToolInvocations'),
  ),
  cachedContent: { ...stored('a cached prompt that the vendor stores'), isPath: true, isMadeOutside: true },
  serviceTier: priced(SERVICE_TIER),
  continuationToken: unbounded('it continues an earlier answer, which the vendor stores'),
  ...freeFields('safetySettings', 'labels', 'store'),
});

/** The body of `countTokens`: contents, or a whole request. */
export const COUNT_CONTENT_FIELDS: Fields = bothSpellings({
  model: SAME_MODEL,
  contents: list(CONTENT),
  generateContentRequest: object(GENERATE_CONTENT_FIELDS),
});

/** The body of `embedContent` (https://ai.google.dev/api/embeddings). */
export const EMBED_CONTENT_FIELDS: Fields = bothSpellings({
  model: SAME_MODEL,
  content: CONTENT,
  ...freeFields('taskType', 'title', 'outputDimensionality', 'embedContentConfig'),
});

export const BATCH_EMBED_FIELDS: Fields = {
  requests: list(object(EMBED_CONTENT_FIELDS), MAX_BATCH),
};
