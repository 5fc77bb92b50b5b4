/** What a vendor's refusal is about. */
export type RefusedFor =
  /** The credential, whoever uses it for whatever: no request can provoke it. */
  | 'credential'
  /** The account lacks a right, or the vendor forbids what the request asks for: only other requests can tell. */
  | 'unclear'
  /** The request. */
  | 'request';

/**
 * Words of an error's type or code that say that the credential or its account is not valid. A request can't provoke them: it
 * goes out with the same credential as every other.
 */
const INVALID_WORD =
  /^api_key_|(^|_)(invalid_?(api_?)?key|(api_?)?key_?(invalid|expired|revoked|disabled|not_?(valid|found))|incorrect_?api_?key|authentication_?(error|failed)|unauthenticated|invalid_?(access_?)?token|(access_?)?token_?(expired|invalid|revoked)|expired_?token(exception)?|unrecognizedclient(exception)?|invalid_?signature(exception)?|(account|user|organi[sz]ation|consumer)_?(deactivated|disabled|suspended|inactive)|billing_?(not_?active|disabled)|service_?disabled|ip_?not_?authorized)$/;
/** Words of an error's type or code that say that the account or its key may not do this. */
const PERMISSION_WORD =
  /permission|scope|unauthori[sz]ed|authenticat|authoriz|api_?key|credential|token_?(expired|invalid)|expired_?token|access_?(denied|forbidden)|accessdenied|signature|unrecognizedclient|account|organi[sz]ation|project|billing|ip_not/;
/** Words of an error's type or code that say that the request is refused. */
const REQUEST_WORD =
  /content|moderation|safety|policy_violation|usage_polic|flagged|filter|country|region|territory|request_forbidden|context_length|token_?limit|too_?long|cyber|abuse/;
/** The same in a sentence. Words that also tell of an account, such as "policy" alone, are not among them. */
const REQUEST_SENTENCE =
  /\b(moderation|flagged|safety|content (policy|filter|violates|violation)|usage (guidelines|polic(y|ies))|violates|(country|region|territory|location)\b.*\bnot (supported|available|allowed)|unsupported (country|region|location)|not (supported|available) in your (country|region|location)|max_(new_)?tokens|context (length|window)|too long)\b/i;
/** Google answers a key that it does not know with 400 (https://cloud.google.com/apis/design/errors). */
const GOOGLE_SENTENCE = /^API key (not valid|expired)/i;
/** So does xAI. At the start: further on, the vendor may quote the request. */
const KEY_SENTENCE =
  /^((incorrect|invalid) api[ _-]key|api key (is )?(not valid|invalid|expired|not found|missing))\b/i;
/** A key that is valid, but not for this model or this part of the API (OpenAI's restricted keys, gateways). */
const PARTIAL = /scope|permission|model|not allowed/i;

/**
 * Reads a 400, 401 or 403. Its machine-readable type or code decides; where it has none that is known, its text. `body` is
 * undefined if it could not be read.
 */
export function refusedFor(status: number, body: string | undefined): RefusedFor {
  const { words, sentences } = body === undefined ? NOTHING : errorParts(body);
  const isInvalid = words.some((word) => INVALID_WORD.test(word));
  if (status === 400) {
    if (isInvalid || sentences.some((sentence) => GOOGLE_SENTENCE.test(sentence))) return 'credential';
    return sentences.some((sentence) => KEY_SENTENCE.test(sentence)) ? 'unclear' : 'request';
  }
  if (status === 401) {
    const isPartial = !isInvalid && [...words, ...sentences].some((value) => PARTIAL.test(value));
    return isPartial ? 'unclear' : 'credential';
  }
  if (words.some((word) => REQUEST_WORD.test(word))) return 'request';
  if (isInvalid) return 'credential';
  if (words.some((word) => PERMISSION_WORD.test(word))) return 'unclear';
  return sentences.some((sentence) => REQUEST_SENTENCE.test(sentence)) ? 'request' : 'unclear';
}

/** Whether an error says that the key has no right to list models: that tells nothing of its other rights. */
export function isPartialRight(body: string | undefined): boolean {
  const { words, sentences } = body === undefined ? NOTHING : errorParts(body);
  return [...words, ...sentences].some((value) => /scope/i.test(value));
}

interface ErrorParts {
  readonly words: readonly string[];
  readonly sentences: readonly string[];
}

const NOTHING: ErrorParts = { words: [], sentences: [] };
const FIELDS = ['type', 'code', 'status', 'reason', '__type', 'message', 'error', 'detail'];
const MAX_VALUES = 50;

/** The words (`permission_error`) and sentences of an error in the vendors' usual shapes. */
function errorParts(body: string): ErrorParts {
  const values: string[] = [];
  const collect = (value: unknown, depth: number): void => {
    if (values.length >= MAX_VALUES || depth > 6) return;
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
