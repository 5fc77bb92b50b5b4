/** AWS names its errors; Anthropic's clients know these types. */
const TYPES: Readonly<Record<string, string>> = {
  accessdeniedexception: 'permission_error',
  expiredtokenexception: 'authentication_error',
  incompletesignatureexception: 'authentication_error',
  invalidsignatureexception: 'authentication_error',
  missingauthenticationtokenexception: 'authentication_error',
  modelnotreadyexception: 'overloaded_error',
  modeltimeoutexception: 'timeout_error',
  resourcenotfoundexception: 'not_found_error',
  servicequotaexceededexception: 'rate_limit_error',
  serviceunavailableexception: 'overloaded_error',
  throttlingexception: 'rate_limit_error',
  unrecognizedclientexception: 'authentication_error',
  validationexception: 'invalid_request_error',
};

/** An error of Bedrock in Anthropic's shape. `code` is its name at AWS, such as `ThrottlingException`. */
export function anthropicError(code: string, message: string): object {
  const type = TYPES[code.toLowerCase()] ?? 'api_error';
  return { type: 'error', error: { type, message: message || code || 'Bedrock answered with an error.' } };
}
