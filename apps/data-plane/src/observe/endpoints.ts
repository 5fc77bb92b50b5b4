import type { Operation } from '../formats/operation.ts';

/** The label of a route in metrics, log and traces. */
export type Endpoint =
  | 'chat_completions'
  | 'completions'
  | 'responses'
  | 'input_tokens'
  | 'compact'
  | 'messages'
  | 'count_tokens'
  | 'embeddings'
  | 'generate_content'
  | 'embed_content'
  | 'stored_responses'
  | 'models'
  | 'feedback'
  | 'other';

const ENDPOINT_OF_PATH: Readonly<Record<string, Endpoint>> = {
  '/chat/completions': 'chat_completions',
  '/completions': 'completions',
  '/responses': 'responses',
  '/responses/input_tokens': 'input_tokens',
  '/responses/compact': 'compact',
  '/messages': 'messages',
  '/messages/count_tokens': 'count_tokens',
  '/embeddings': 'embeddings',
  '/models/{model}:generateContent': 'generate_content',
  '/models/{model}:countTokens': 'count_tokens',
  '/models/{model}:embedContent': 'embed_content',
  '/models/{model}:batchEmbedContents': 'embed_content',
};

export function endpointOf({ path }: Pick<Operation, 'path'>): Endpoint {
  return ENDPOINT_OF_PATH[path] ?? 'other';
}

/** The operation's name in the OpenTelemetry GenAI conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/). */
export function genAiOperation(
  operation: Pick<Operation, 'path'>,
): 'chat' | 'embeddings' | 'text_completion' {
  const endpoint = endpointOf(operation);
  if (endpoint === 'completions') return 'text_completion';
  return endpoint === 'embeddings' || endpoint === 'embed_content' ? 'embeddings' : 'chat';
}

/** The provider's name in the conventions, if they have one; else its id. */
export function genAiProvider(provider: string): string {
  return Object.hasOwn(PROVIDERS, provider) ? (PROVIDERS[provider] ?? provider) : provider;
}

const PROVIDERS: Readonly<Record<string, string>> = {
  azure: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  gemini: 'gcp.gemini',
  google: 'gcp.gemini',
  mistral: 'mistral_ai',
  moonshot: 'moonshot_ai',
  vertex: 'gcp.vertex_ai',
  watsonx: 'ibm.watsonx.ai',
  xai: 'x_ai',
};
