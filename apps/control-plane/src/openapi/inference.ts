import type { OpenApiDocument, Operation, Parameter } from './types.ts';

/**
 * The inference operations, written by hand: the data plane serves them (apps/data-plane/src/http/app.ts), and their
 * bodies belong to the vendors, so that there is no schema to generate them from.
 */

const HEADERS: readonly (readonly [name: string, description: string])[] = [
  [
    'X-Svc-Session-Id',
    'Client-supplied conversation id. The router pins its first decision to it, so that an edit of the profile during a conversation can not swap the model.',
  ],
  ['X-Svc-User', 'Cost-attribution user'],
  ['X-Svc-Team', 'Cost-attribution team'],
  ['X-Svc-Project', 'Cost-attribution project'],
  ['X-Svc-Env', 'Cost-attribution environment'],
  [
    'X-Svc-Labels',
    'Free-form attribution labels in the form `key1=val1,key2=val2`; malformed pairs are skipped',
  ],
  ['X-Svc-Workload-Type', 'Caller-declared workload type'],
  ['X-Svc-Namespace', 'Source namespace of a container orchestrator'],
  ['X-Svc-Workload', 'Source workload of a container orchestrator'],
  ['X-Svc-Pod', 'Source pod of a container orchestrator'],
];

const attribution: readonly Parameter[] = HEADERS.map(([name, description]) => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string' },
}));

const responseId: Parameter = {
  name: 'response_id',
  in: 'path',
  required: true,
  description: 'A stored response id issued by the upstream.',
  schema: { type: 'string' },
};

const answerHeaders = {
  'x-request-id': { description: "The request's id, also in an error.", schema: { type: 'string' } },
};

const routingHeaders = {
  ...answerHeaders,
  'x-svc-model': { description: 'The model that served it.', schema: { type: 'string' } },
  'x-svc-cost-micro-usd': {
    description: 'What it cost; not where the answer is streamed or larger than 1 MiB.',
    schema: { type: 'integer' },
  },
  'x-svc-cache': {
    description:
      'Whether it came from the response cache; bypass: nothing was looked up, and nothing is kept.',
    schema: { type: 'string', enum: ['hit', 'miss', 'bypass'] },
  },
};

const vendorAnswer = { type: 'object', additionalProperties: true };

interface Generation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  /** Whether the answer may come as a stream of server-sent events. */
  readonly streams: boolean;
  readonly request: object;
  readonly answer: object;
}

/** A request that a model answers. */
function generation({ operationId, summary, description, streams, request, answer }: Generation): Operation {
  return {
    operationId,
    summary,
    description: `${description} The service reads \`model\`; the rest is the vendor's and passes through. The \`X-Svc-*\` headers are recorded with the cost and never forwarded. A vendor's own error passes through with its status and body.`,
    tags: ['Inference'],
    security: [{ inferenceKey: [] }],
    parameters: attribution,
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: {
            title: 'InferenceRequest',
            type: 'object',
            required: ['model'],
            properties: {
              model: { type: 'string', description: '`<provider>/<model_name>`, or `router/<profile>`' },
            },
            additionalProperties: true,
          },
          example: request,
        },
      },
    },
    responses: {
      200: {
        description: streams
          ? "The vendor's answer; a stream of server-sent events where the body asks for `stream`."
          : "The vendor's answer.",
        headers: routingHeaders,
        content: {
          'application/json': { schema: vendorAnswer, example: answer },
          ...(streams && { 'text/event-stream': { schema: { type: 'string' } } }),
        },
      },
    },
  };
}

/** An operation on what there is already: no model is used, nothing is routed or cached. */
function reading(
  operationId: string,
  summary: string,
  description: string,
  parameters: readonly Parameter[],
  example: object,
): Operation {
  return {
    operationId,
    summary,
    description,
    tags: ['Inference'],
    security: [{ inferenceKey: [] }],
    parameters,
    responses: {
      200: {
        description: 'As asked.',
        headers: answerHeaders,
        content: { 'application/json': { schema: vendorAnswer, example } },
      },
    },
  };
}

const THROUGH =
  'It goes through the connector that made the response. No model is used, nothing is routed or cached.';
const RESPONSE = { id: 'resp_68af4030592c81938ec0a5fbab4a3e9f', object: 'response', status: 'completed' };
const MODEL = { id: 'mock/echo', object: 'model', created: 1_795_132_800, owned_by: 'mock' };
const LISTS =
  "The models that the key can reach, and the routing profiles. In OpenAI's shape, or in Anthropic's where the header `anthropic-version` is sent.";

const REQUEST_ID = 'req_01kafyq2s0e5fvf6m8x4n9r7td';

function feedbackAnswer(description: string, status: 'counted' | 'pending') {
  return {
    description,
    headers: answerHeaders,
    content: {
      'application/json': {
        schema: {
          title: 'FeedbackAnswer',
          type: 'object',
          required: ['request_id', 'status'],
          properties: {
            request_id: { type: 'string' },
            status: { type: 'string', enum: ['counted', 'pending'] },
          },
        },
        example: { request_id: REQUEST_ID, status },
      },
    },
  };
}

export const inferencePaths: OpenApiDocument['paths'] = {
  '/v1/chat/completions': {
    post: generation({
      operationId: 'createChatCompletion',
      summary: 'Chat completions (OpenAI-compatible wire)',
      description: 'The body is an OpenAI-compatible chat-completions request.',
      streams: true,
      request: { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello, weighbridge!' }] },
      answer: {
        id: 'chatcmpl-1',
        object: 'chat.completion',
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: 'Hello, weighbridge!' },
            finish_reason: 'stop',
          },
        ],
        usage: { prompt_tokens: 8, completion_tokens: 5, total_tokens: 13 },
      },
    }),
  },
  '/v1/responses': {
    post: generation({
      operationId: 'createResponse',
      summary: 'Create a response (OpenAI-compatible wire)',
      description: 'What it stores is read back by its id.',
      streams: true,
      request: { model: 'openai/gpt-4o-mini', input: 'Hello, weighbridge!' },
      answer: RESPONSE,
    }),
  },
  '/v1/responses/{response_id}': {
    get: reading('getResponse', 'Retrieve a stored response', THROUGH, [responseId], RESPONSE),
    delete: reading('deleteResponse', 'Delete a stored response', THROUGH, [responseId], {
      id: RESPONSE.id,
      object: 'response',
      deleted: true,
    }),
  },
  '/v1/responses/{response_id}/input_items': {
    get: reading('listResponseInputItems', "List a stored response's input items", THROUGH, [responseId], {
      object: 'list',
      data: [],
      has_more: false,
    }),
  },
  '/v1/responses/{response_id}/cancel': {
    post: reading('cancelResponse', 'Cancel a response that runs in the background', THROUGH, [responseId], {
      ...RESPONSE,
      status: 'cancelled',
    }),
  },
  '/v1/messages': {
    post: generation({
      operationId: 'createMessage',
      summary: 'Messages (Anthropic-compatible wire)',
      description:
        'The key may also come in `x-api-key`; `Authorization` wins. Errors have the shape of this wire.',
      streams: true,
      request: {
        model: 'anthropic/claude-sonnet-4-5',
        max_tokens: 256,
        messages: [{ role: 'user', content: 'Hello, weighbridge!' }],
      },
      answer: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: 'Hello, weighbridge!' }],
        usage: { input_tokens: 8, output_tokens: 5 },
      },
    }),
  },
  '/v1/messages/count_tokens': {
    post: generation({
      operationId: 'countMessageTokens',
      summary: 'Count the tokens of a messages request',
      description: 'Nothing is generated. Errors have the shape of this wire.',
      streams: false,
      request: {
        model: 'anthropic/claude-sonnet-4-5',
        messages: [{ role: 'user', content: 'Hello, weighbridge!' }],
      },
      answer: { input_tokens: 8 },
    }),
  },
  '/v1/embeddings': {
    post: generation({
      operationId: 'createEmbeddings',
      summary: 'Embeddings (OpenAI-compatible wire)',
      description: 'The body is an OpenAI-compatible embeddings request.',
      streams: false,
      request: { model: 'openai/text-embedding-3-small', input: 'Hello, weighbridge!' },
      answer: {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.01, -0.02] }],
        usage: { prompt_tokens: 8, total_tokens: 8 },
      },
    }),
  },
  '/v1/feedback': {
    post: {
      operationId: 'giveFeedback',
      summary: 'Say how good the answer to a request was',
      description:
        "It counts in what the strategy `adaptive` goes by. Any valid key may give it for requests of its own principal; given again, the later word replaces the earlier one. Another principal's request, or nobody's, is a 404.",
      tags: ['Inference'],
      security: [{ inferenceKey: [] }],
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              title: 'FeedbackRequest',
              type: 'object',
              required: ['request_id', 'score'],
              properties: {
                request_id: { type: 'string', description: 'What the answer had as `x-request-id`.' },
                score: { type: 'number', minimum: 0, maximum: 1 },
                comment: {
                  type: 'string',
                  maxLength: 1_000,
                  description: 'Kept for operators.',
                },
              },
              additionalProperties: false,
            },
            example: { request_id: REQUEST_ID, score: 0.8, comment: 'Right, but long.' },
          },
        },
      },
      responses: {
        200: feedbackAnswer('It counts.', 'counted'),
        202: feedbackAnswer(
          'It counts as soon as the ledger has the request; where that never comes, it is dropped.',
          'pending',
        ),
      },
    },
  },
  '/v1/models': {
    get: reading('listInferenceModels', 'List models, in the shape that SDKs expect', LISTS, [], {
      object: 'list',
      data: [MODEL],
    }),
  },
  '/v1/models/{model}': {
    get: reading(
      'getInferenceModel',
      'Retrieve a model, in the shape that SDKs expect',
      LISTS,
      [
        {
          name: 'model',
          in: 'path',
          required: true,
          description: '`<provider>/<model_name>`; its slashes may stand as they are.',
          schema: { type: 'string' },
        },
      ],
      MODEL,
    ),
  },
};
