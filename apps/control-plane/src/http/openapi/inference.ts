import type { OpenApiDocument, Operation, Parameter } from './openApi.ts';

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
};

const vendorAnswer = { type: 'object', additionalProperties: true };

const chat: Operation = {
  operationId: 'createChatCompletion',
  summary: 'Chat completions (OpenAI-compatible wire)',
  description:
    "The body is an OpenAI-compatible request. The service reads `model`; the rest is the vendor's and passes through. " +
    "The `X-Svc-*` headers are recorded with the cost and never forwarded. A vendor's own error passes through with its status and body.",
  tags: ['Inference'],
  security: [{ inferenceKey: [] }],
  parameters: attribution,
  requestBody: {
    required: true,
    content: {
      'application/json': {
        schema: {
          title: 'ChatCompletionRequest',
          type: 'object',
          required: ['model'],
          properties: { model: { type: 'string', description: '`<provider>/<model_name>`' } },
          additionalProperties: true,
        },
        example: {
          model: 'mock/echo',
          messages: [{ role: 'user', content: 'Hello, weighbridge!' }],
        },
      },
    },
  },
  responses: {
    200: {
      description: "The vendor's answer; a stream of server-sent events where the body asks for `stream`.",
      headers: routingHeaders,
      content: {
        'application/json': {
          schema: vendorAnswer,
          example: {
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
        },
        'text/event-stream': { schema: { type: 'string' } },
      },
    },
  },
};

function readStored(operationId: string, summary: string, example: unknown): Operation {
  return {
    operationId,
    summary,
    description: `${summary}, through the connector that made it. No model is used, nothing is routed or cached.`,
    tags: ['Inference'],
    security: [{ inferenceKey: [] }],
    parameters: [responseId],
    responses: {
      200: {
        description: "The vendor's answer.",
        headers: answerHeaders,
        content: { 'application/json': { schema: vendorAnswer, example } },
      },
    },
  };
}

export const inferencePaths: OpenApiDocument['paths'] = {
  '/v1/chat/completions': { post: chat },
  '/v1/responses/{response_id}': {
    get: readStored('getResponse', 'Retrieve a stored response', {
      id: 'resp_68af4030592c81938ec0a5fbab4a3e9f',
      object: 'response',
      status: 'completed',
    }),
  },
  '/v1/responses/{response_id}/input_items': {
    get: readStored('listResponseInputItems', "List a stored response's input items", {
      object: 'list',
      data: [],
      has_more: false,
    }),
  },
};
