/** Which API of Vertex AI answers: it decides the shape of an error. */
export type VertexApi = 'anthropic' | 'gemini' | 'openai';

/** Google names its errors; Anthropic's clients know these types. */
const TYPES: Readonly<Record<string, string>> = {
  DEADLINE_EXCEEDED: 'timeout_error',
  FAILED_PRECONDITION: 'invalid_request_error',
  INVALID_ARGUMENT: 'invalid_request_error',
  NOT_FOUND: 'not_found_error',
  OUT_OF_RANGE: 'invalid_request_error',
  PERMISSION_DENIED: 'permission_error',
  RESOURCE_EXHAUSTED: 'rate_limit_error',
  UNAUTHENTICATED: 'authentication_error',
  UNAVAILABLE: 'overloaded_error',
};

/** An error of Vertex AI in the shape of the caller's API. The account's project and identity are not in it. */
export function vertexError(api: VertexApi, text: string): string {
  const parsed = parse(text);
  // Streams and the compatible route put errors in a list.
  const body = Array.isArray(parsed) ? (parsed[0] as unknown) : parsed;
  const { type, error } = (body ?? {}) as { readonly type?: unknown; readonly error?: GoogleError };
  if (typeof error !== 'object' || error === null) return withoutAccount(text);
  // Claude's own errors.
  if (type === 'error' || api === 'gemini') return withoutAccount(JSON.stringify(body));
  const { status = '', message = 'Vertex AI answered with an error.' } = error;
  if (api === 'anthropic') {
    const named = { type: 'error', error: { type: TYPES[status] ?? 'api_error', message } };
    return withoutAccount(JSON.stringify(named));
  }
  if (typeof error.code !== 'number') return withoutAccount(JSON.stringify(body));
  const named = { error: { message, type: TYPES[status] ?? 'api_error', param: null, code: status } };
  return withoutAccount(JSON.stringify(named));
}

interface GoogleError {
  readonly code?: unknown;
  readonly status?: string;
  readonly message?: string;
}

/** Tokens, projects by their ids and numbers, and service accounts. */
function withoutAccount(text: string): string {
  return text
    .replaceAll(/\bya29\.[\w.-]+/g, '…')
    .replaceAll(/\bBearer [\w.~+/=-]+/gi, 'Bearer …')
    .replaceAll(/\b(projects?(?:[/:=]| number | ))(?!was\b|or\b|does\b|has\b|is\b|may\b)[\w.:-]+/gi, '$1…')
    .replaceAll(/[\w.-]+@[\w.-]+\.gserviceaccount\.com/g, '…');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
