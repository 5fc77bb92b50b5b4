import { REQUEST_ID_HEADER, VendorBody } from './errors.ts';
import { attribution, EVENT_STREAM, routingHeaders } from './inference.ts';
import { NAME_PATTERN } from './parameters.ts';
import type { OpenApiDocument, Operation, Parameter, Schema } from './types.ts';

/** Gemini's own operations, in the form of `inference.ts`. They are also served below `/v1`. */

const model: Parameter = {
  name: 'model',
  in: 'path',
  required: true,
  description:
    "`<provider>/<model_name>`, `router/<profile>`, or a bare name of Google's. Its slashes need no encoding.",
  schema: { type: 'string', pattern: NAME_PATTERN },
};
const alt: Parameter = {
  name: 'alt',
  in: 'query',
  required: false,
  description: 'With `sse`, the stream is server-sent events; else it is one JSON array.',
  schema: { title: 'GeminiStreamFormat', type: 'string', enum: ['json', 'sse'] },
};
const BODY: Schema = {
  title: 'GeminiRequest',
  type: 'object',
  properties: {
    model: { type: 'string', description: 'If it is there, `models/` and the model of the path.' },
  },
  additionalProperties: true,
  description: "The body of Google's operation.",
};
const USAGE = { promptTokenCount: 8, candidatesTokenCount: 5, totalTokenCount: 13 };
const RESPONSE = {
  candidates: [
    {
      content: { role: 'model', parts: [{ text: 'Hello, weighbridge!' }] },
      finishReason: 'STOP',
      index: 0,
    },
  ],
  usageMetadata: USAGE,
  modelVersion: 'echo',
};
const MODEL = {
  name: 'models/mock/echo',
  displayName: 'mock/echo',
  supportedGenerationMethods: ['generateContent'],
};

function operation(
  operationId: string,
  summary: string,
  example: object,
  { streams = false, isFree = false, isTranslated = false } = {},
): { readonly post: Operation } {
  const cost = isFree ? ' It costs nothing.' : '';
  const others = isTranslated
    ? 'for a model of a provider with another dialect, it is translated'
    : 'a model of another provider gets 400 `route_not_supported`';
  return {
    post: {
      operationId,
      summary,
      description: `It goes to Gemini's own API: ${others}.${cost} The key may also be in \`x-goog-api-key\` or \`?key=\`; \`Authorization\` takes precedence. Errors have Google's shape. Also served below \`/v1\`.`,
      tags: ['Inference'],
      security: [{ inferenceKey: [] }],
      parameters: [model, ...(streams ? [alt] : []), ...attribution],
      requestBody: { required: true, content: { 'application/json': { schema: BODY } } },
      responses: {
        200: {
          description: "The vendor's response.",
          headers: routingHeaders,
          content: {
            'application/json': {
              schema: streams ? { type: 'array', items: VendorBody } : VendorBody,
              example,
            },
            ...(streams && EVENT_STREAM),
          },
        },
      },
    },
  };
}

function reading(operationId: string, summary: string, parameters: readonly Parameter[], example: object) {
  const get: Operation = {
    operationId,
    summary,
    description:
      "The models that the key can use by Gemini's operations, in Google's format. `/v1/models` answers in it too, to a request with the header `x-goog-api-key`.",
    tags: ['Inference'],
    security: [{ inferenceKey: [] }],
    parameters,
    responses: {
      200: {
        description: 'OK',
        headers: REQUEST_ID_HEADER,
        content: { 'application/json': { schema: VendorBody, example } },
      },
    },
  };
  return { get };
}

const AT = '/v1beta/models/{model}';

export const geminiPaths: OpenApiDocument['paths'] = {
  '/v1beta/models': reading('listGeminiModels', "List models in Google's format", [], { models: [MODEL] }),
  [AT]: reading('getGeminiModel', "Retrieve a model in Google's format", [model], MODEL),
  [`${AT}:generateContent`]: operation('generateContent', 'Generate content (Gemini)', RESPONSE, {
    isTranslated: true,
  }),
  [`${AT}:streamGenerateContent`]: operation(
    'streamGenerateContent',
    'Generate content as a stream (Gemini)',
    [RESPONSE],
    {
      streams: true,
      isTranslated: true,
    },
  ),
  [`${AT}:countTokens`]: operation(
    'countContentTokens',
    'Count the tokens of contents (Gemini)',
    { totalTokens: 8 },
    { isFree: true, isTranslated: true },
  ),
  [`${AT}:embedContent`]: operation('embedContent', 'Create an embedding (Gemini)', {
    embedding: { values: [0.01, -0.02] },
  }),
  [`${AT}:batchEmbedContents`]: operation('batchEmbedContents', 'Create embeddings (Gemini)', {
    embeddings: [{ values: [0.01, -0.02] }],
  }),
};
