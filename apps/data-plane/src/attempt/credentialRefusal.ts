import { AppError } from '@weighbridge/errors';
import { decodeBody, encodingOf } from '../formats/contentEncoding.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import type { Attempt } from './attempt.ts';
import { SupersededResponse } from './supersededResponse.ts';

/** A 401 or 403 of a vendor; of Gemini's own API, also a 400. */
export interface Refusal {
  /** The vendor refuses the connector's credential; otherwise this request, whoever sends it. */
  readonly isOfCredential: boolean;
  /** The response as if it had just arrived; undefined if it is not for the client. */
  readonly response: UpstreamResponse | undefined;
}

const MAX_DECODED_BYTES = 256 * 1024;

/** Whether the response may refuse the credential, which is the service's own: the client's never goes out. */
export function mayRefuseCredential(attempt: Attempt): boolean {
  if (attempt.state !== 'answered') return false;
  const { status } = attempt.response;
  return status === 401 || status === 403 || (status === 400 && attempt.prepared.nativePath !== undefined);
}

/** Reads a 401 or 403. The body of a 401 is not waited for. `memory` holds it until the request ends. */
export async function readRefusal(attempt: Attempt, memory: HeldMemory): Promise<Refusal> {
  const { status, headers } = attempt.response;
  const held = new SupersededResponse(attempt, memory);
  if (status === 401) return OF_CREDENTIAL;
  const bytes = await held.bytes();
  if (bytes === undefined) return OF_CREDENTIAL;
  const encoding = encodingOf(headers['content-encoding']);
  const plain =
    encoding === undefined || encoding === 'unknown'
      ? bytes
      : await decodeBody(encoding, bytes, MAX_DECODED_BYTES);
  const refuses = status === 400 ? refusesGoogleKey : refusesCredential;
  if (plain === undefined || refuses(plain.toString('utf8'))) return OF_CREDENTIAL;
  return { isOfCredential: false, response: await held.take() };
}

const OF_CREDENTIAL: Refusal = { isOfCredential: true, response: undefined };

/** Words of an error's type or code that say that the account or its key may not do this. */
const CREDENTIAL_WORD =
  /permission|scope|unauthori[sz]ed|authenticat|authoriz|api_?key|credential|token_?(expired|invalid)|expired_?token|access_?(denied|forbidden)|accessdenied|signature|unrecognizedclient|account|organi[sz]ation|project|billing|ip_not/;
/** Words of an error's type or code that say that the request is refused. */
const REQUEST_WORD =
  /content|moderation|safety|policy_violation|usage_polic|flagged|filter|country|region|territory|request_forbidden|context_length|token_?limit|too_?long|cyber|abuse/;
/** The same in a sentence. Words that also tell of an account, such as "policy" alone, are not among them. */
const REQUEST_SENTENCE =
  /\b(moderation|flagged|safety|content (policy|filter|violates|violation)|usage (guidelines|polic(y|ies))|violates|(country|region|territory|location)\b.*\bnot (supported|available|allowed)|unsupported (country|region|location)|not (supported|available) in your (country|region|location)|max_(new_)?tokens|context (length|window)|too long)\b/i;

/**
 * Whether a 403 is about the credential rather than the request. Its machine-readable type or code decides; where it has
 * none that is known, its text; and where nothing says that the request is refused, it is about the credential: then the
 * vendor's words may tell of the account, and the operator should look.
 */
export function refusesCredential(body: string): boolean {
  const { words, sentences } = errorParts(body);
  if (words.some((word) => REQUEST_WORD.test(word))) return false;
  if (words.some((word) => CREDENTIAL_WORD.test(word))) return true;
  return !sentences.some((sentence) => REQUEST_SENTENCE.test(sentence));
}

/** Google answers an API key that it does not know, or that has expired, with 400 (https://cloud.google.com/apis/design/errors). */
function refusesGoogleKey(body: string): boolean {
  const { words, sentences } = errorParts(body);
  return (
    words.some((word) => /^api_key_/.test(word)) ||
    sentences.some((text) => /^API key (not valid|expired)/i.test(text))
  );
}

const FIELDS = ['type', 'code', 'status', 'reason', '__type', 'message', 'error', 'detail'];
const MAX_VALUES = 50;

/** The words (`permission_error`) and sentences of an error in the vendors' usual shapes. */
function errorParts(body: string): { readonly words: string[]; readonly sentences: string[] } {
  const values: string[] = [];
  const collect = (value: unknown, depth: number): void => {
    if (values.length >= MAX_VALUES || depth > 4) return;
    if (typeof value === 'string') values.push(value);
    else if (Array.isArray(value)) for (const one of value.slice(0, 5)) collect(one, depth + 1);
    else if (typeof value === 'object' && value !== null) {
      for (const name of FIELDS) collect((value as Record<string, unknown>)[name], depth + 1);
      collect((value as Record<string, unknown>).details, depth + 1);
    }
  };
  try {
    collect(JSON.parse(body), 0);
  } catch {
    // A page of a firewall tells neither.
  }
  const isWord = (value: string) => /^[\w.:#/-]{1,100}$/.test(value);
  return {
    words: values.filter(isWord).map((value) => value.replaceAll(/[.:#/-]/g, '_').toLowerCase()),
    sentences: values.filter((value) => !isWord(value)).map((value) => value.slice(0, 1_000)),
  };
}

/** What the client gets if the vendor refuses the connector's credential. */
export function connectorUnauthorized(provider: string): AppError {
  return new AppError(
    'upstream',
    'connector_unauthorized',
    `The vendor ${provider} refused the credential with which this service called it. Your own key is fine. The operator of the service was told, and has to renew the credential; until then, use a model of another provider.`,
    { headers: { 'x-should-retry': 'false' } },
  );
}
