import { REQUEST_ID_HEADER, VendorBody } from './errors.ts';
import { NAME_PATTERN, REQUEST_ID_PATTERN } from './parameters.ts';
import type { OpenApiDocument, Operation, Parameter } from './types.ts';

/**
 * The inference operations. They are written by hand, since the data plane serves them and their bodies are the vendors',
 * so there are no route schemas to generate them from.
 */

const HEADERS: readonly (readonly [name: string, description: string])[] = [
  [
    'X-Svc-Session-Id',
    'Conversation id of the client. The first routing decision is pinned to it, so a change of the profile does not change the model during a conversation.',
  ],
  ['X-Svc-User', 'User to attribute the cost to'],
  ['X-Svc-Team', 'Team to attribute the cost to'],
  ['X-Svc-Project', 'Project to attribute the cost to'],
  ['X-Svc-Env', 'Environment to attribute the cost to'],
  ['X-Svc-Labels', 'Labels to attribute the cost to, as `key1=val1,key2=val2`. Malformed pairs are skipped'],
  ['X-Svc-Workload-Type', 'Workload type, declared by the client'],
  ['X-Svc-Namespace', 'Kubernetes namespace of the client'],
  ['X-Svc-Workload', 'Kubernetes workload of the client'],
  ['X-Svc-Pod', 'Kubernetes pod of the client'],
];

export const attribution: readonly Parameter[] = HEADERS.map(([name, description]) => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string' },
}));

/**
 * A stream, as the content of a response. OpenAPI 3.1 has no schema for what its events hold, and tools check the events, not
 * the text, against the one that is given.
 */
export const EVENT_STREAM = {
  'text/event-stream': { schema: { description: 'Server-sent events, as the vendor sends them' } },
};

const responseId: Parameter = {
  name: 'response_id',
  in: 'path',
  required: true,
  description: 'The id of a stored response, issued by the upstream.',
  schema: { type: 'string' },
};

/** Of every answer of a vendor. */
const vendorHeaders = {
  ...REQUEST_ID_HEADER,
  'x-svc-cost-micro-usd': {
    description:
      'The cost of the request; 0 if nothing is billed. Absent if the response is streamed or larger than 1 MiB.',
    schema: { type: 'integer' },
  },
  'x-svc-overhead-ms': {
    description: "The service's own part of the latency, in milliseconds.",
    schema: { type: 'number' },
  },
  'x-svc-cache': {
    description:
      'Whether the response came from the response cache. bypass: the cache was neither read nor written.',
    schema: { title: 'CacheResult', type: 'string', enum: ['hit', 'miss', 'bypass'] },
  },
};

export const routingHeaders = {
  ...vendorHeaders,
  'x-svc-model': { description: 'The model that served the request.', schema: { type: 'string' } },
  'x-svc-attempts': { description: 'How many attempts it took.', schema: { type: 'integer' } },
  'x-svc-dropped': {
    description:
      'What the vendor did not get: tools that a hard budget removed, since nothing bounds their uses (`tools[2] web_search`), and fields that a translation dropped or changed (`metadata.user_id changed`).',
    schema: { type: 'string' },
  },
  'x-svc-skipped': {
    description:
      'The models of the profile that were passed over, each with the further limit of a policy that has no headroom for it (`mock/large large%20models`).',
    schema: { type: 'string' },
  },
  'x-svc-estimated': {
    description: "`true` for a count of tokens that the model's vendor did not make.",
    schema: { type: 'string' },
  },
};

interface Generation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  /** Whether the response can be a stream of server-sent events. */
  readonly streams: boolean;
  readonly response: object;
}

/** An operation that uses a model. */
function generation({ operationId, summary, description, streams, response }: Generation): Operation {
  return {
    operationId,
    summary,
    description: `${description} The service reads \`model\` and forwards the rest of the body. The \`X-Svc-*\` headers are recorded with the cost and never forwarded. An error of the vendor is forwarded with its status and body.`,
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
              model: {
                type: 'string',
                pattern: NAME_PATTERN,
                description:
                  '`<provider>/<model_name>`, `router/<profile>`, or another name of a model (docs/models.md)',
              },
            },
            additionalProperties: true,
          },
        },
      },
    },
    responses: {
      200: {
        description: streams
          ? "The vendor's response; a stream of server-sent events if the body sets `stream`."
          : "The vendor's response.",
        headers: routingHeaders,
        content: {
          'application/json': { schema: VendorBody, example: response },
          ...(streams && EVENT_STREAM),
        },
      },
    },
  };
}

/** An operation that uses no model: nothing is routed or cached. */
function operationWithoutModel(
  operationId: string,
  summary: string,
  description: string,
  parameters: readonly Parameter[],
  example: object,
  headers: Readonly<Record<string, unknown>> = REQUEST_ID_HEADER,
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
        description: 'OK',
        headers,
        content: { 'application/json': { schema: VendorBody, example } },
      },
    },
  };
}

const THROUGH =
  'The request goes to the connector that created the response. No model is used, and nothing is routed or cached.';
/** An operation on a stored response. */
function storedRead(operationId: string, summary: string, example: object): Operation {
  return operationWithoutModel(operationId, summary, THROUGH, [responseId], example, vendorHeaders);
}

const RESPONSE = { id: 'resp_68af4030592c81938ec0a5fbab4a3e9f', object: 'response', status: 'completed' };
const MODEL = { id: 'mock/echo', object: 'model', created: 1_795_132_800, owned_by: 'mock' };
const LISTS =
  "The models that the key can use, and the routing profiles. In OpenAI's format, in Anthropic's if the request has the header `anthropic-version`, or in Google's if it has `x-goog-api-key`.";

const REQUEST_ID = 'req_01kafyq2s0e5fvf6m8x4n9r7td';

function feedbackResponse(description: string, status: 'counted' | 'pending') {
  return {
    description,
    headers: REQUEST_ID_HEADER,
    content: {
      'application/json': {
        schema: {
          title: 'RecordedFeedback',
          type: 'object',
          required: ['request_id', 'status'],
          properties: {
            request_id: { type: 'string' },
            status: { title: 'FeedbackStatus', type: 'string', enum: ['counted', 'pending'] },
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
      summary: 'Create a chat completion (OpenAI-compatible)',
      description: 'The body is an OpenAI-compatible chat completions request.',
      streams: true,
      response: {
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
      summary: 'Create a response (OpenAI-compatible)',
      description: 'A stored response can be retrieved by its id.',
      streams: true,
      response: RESPONSE,
    }),
  },
  '/v1/responses/{response_id}': {
    get: storedRead('getResponse', 'Retrieve a stored response', RESPONSE),
    delete: storedRead('deleteResponse', 'Delete a stored response', {
      id: RESPONSE.id,
      object: 'response',
      deleted: true,
    }),
  },
  '/v1/responses/{response_id}/input_items': {
    get: storedRead('listResponseInputItems', "List a stored response's input items", {
      object: 'list',
      data: [],
      has_more: false,
    }),
  },
  '/v1/responses/{response_id}/cancel': {
    post: storedRead('cancelResponse', 'Cancel a background response', { ...RESPONSE, status: 'cancelled' }),
  },
  '/v1/messages': {
    post: generation({
      operationId: 'createMessage',
      summary: 'Create a message (Anthropic-compatible)',
      description:
        'The key may also be in `x-api-key`; `Authorization` takes precedence. Errors have the shape of the messages API.',
      streams: true,
      response: {
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
      description:
        'Nothing is generated. A vendor that has its own counter counts; else the tokens are estimated, and `x-svc-estimated` is `true`. Errors have the shape of the messages API.',
      streams: false,
      response: { input_tokens: 8 },
    }),
  },
  '/v1/embeddings': {
    post: generation({
      operationId: 'createEmbeddings',
      summary: 'Create embeddings (OpenAI-compatible)',
      description: 'The body is an OpenAI-compatible embeddings request.',
      streams: false,
      response: {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.01, -0.02] }],
        usage: { prompt_tokens: 8, total_tokens: 8 },
      },
    }),
  },
  '/v1/completions': {
    post: generation({
      operationId: 'createCompletion',
      summary: 'Create a completion (OpenAI-compatible, for code completion)',
      description: 'The body is an OpenAI-compatible completions request: `prompt` instead of messages.',
      streams: true,
      response: {
        id: 'cmpl-1',
        object: 'text_completion',
        choices: [{ text: 'Hello, weighbridge!', index: 0, logprobs: null, finish_reason: 'stop' }],
        usage: { prompt_tokens: 8, completion_tokens: 5, total_tokens: 13 },
      },
    }),
  },
  '/v1/responses/input_tokens': {
    post: generation({
      operationId: 'countResponseTokens',
      summary: 'Count the tokens that a response would read',
      description:
        'Nothing is generated or charged. A vendor that has its own counter counts; else the tokens are estimated, and `x-svc-estimated` is `true`.',
      streams: false,
      response: { object: 'response.input_tokens', input_tokens: 8 },
    }),
  },
  '/v1/responses/compact': {
    post: generation({
      operationId: 'compactResponse',
      summary: 'Replace a conversation by a shorter one (OpenAI-compatible)',
      description:
        'A model writes it, at its price. Nothing in the request limits its length: under a hard budget, the most that the model writes is reserved.',
      streams: false,
      response: {
        id: 'resp_2',
        object: 'response.compaction',
        output: [{ id: 'cmp_1', type: 'compaction', encrypted_content: 'gAAAAAB…' }],
        usage: { input_tokens: 800, output_tokens: 50, total_tokens: 850 },
      },
    }),
  },
  '/v1/feedback': {
    post: {
      operationId: 'giveFeedback',
      summary: 'Rate the response to a request',
      description:
        'The strategy `adaptive` uses the score. Any valid key may rate requests of its own principal. A later score replaces an earlier one. A request that is unknown or of another principal is a 404.',
      tags: ['Inference'],
      security: [{ inferenceKey: [] }],
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              title: 'NewFeedback',
              type: 'object',
              required: ['request_id', 'score'],
              properties: {
                request_id: {
                  type: 'string',
                  pattern: REQUEST_ID_PATTERN,
                  description: 'The `x-request-id` of the response.',
                },
                score: { type: 'number', minimum: 0, maximum: 1 },
                comment: {
                  type: 'string',
                  maxLength: 1_000,
                  description: 'Stored for operators to read.',
                },
              },
              additionalProperties: false,
            },
          },
        },
      },
      responses: {
        200: feedbackResponse('The score is counted.', 'counted'),
        202: feedbackResponse(
          'The score is counted once the ledger has the request, and dropped if the request never reaches it.',
          'pending',
        ),
      },
    },
  },
  '/v1/models': {
    get: operationWithoutModel('listInferenceModels', 'List models in the format of the SDKs', LISTS, [], {
      object: 'list',
      data: [MODEL],
    }),
  },
  '/v1/models/{model}': {
    get: operationWithoutModel(
      'getInferenceModel',
      'Retrieve a model in the format of the SDKs',
      LISTS,
      [
        {
          name: 'model',
          in: 'path',
          required: true,
          description: '`<provider>/<model_name>`, or another name. Its slashes need no encoding.',
          schema: { type: 'string' },
        },
      ],
      MODEL,
    ),
  },
};
