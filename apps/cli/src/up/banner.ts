export interface BannerFacts {
  readonly url: string;
  readonly dataDir: string;
  /** Undefined where the database was there before, and its key was handed out elsewhere. */
  readonly operatorKeyFile: string | undefined;
  /** The providers that an account of the environment serves. */
  readonly providers: readonly string[];
}

/** What a newcomer needs next, to be pasted as it stands from any folder. */
export function banner({ url, dataDir, operatorKeyFile, providers }: BannerFacts): string {
  const operator = operatorKeyFile ? `$(cat ${shellQuoted(operatorKeyFile)})` : '<OPERATOR_KEY>';
  return `
Weighbridge is ready at ${url}
Operator key: ${operatorKeyFile ?? 'the one that this database was set up with'}
Data:         ${dataDir}
API:          ${url}/docs

Issue a key for an application, use it, see what it cost:

  KEY=$(curl -s ${url}/api/v1/keys -H "Authorization: Bearer ${operator}" -H "Content-Type: application/json" -d '{"name":"my app","scopes":["inference"]}' | sed -n 's/.*"key":"\\([^"]*\\)".*/\\1/p')

  curl -s ${url}/v1/chat/completions -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" -d '{"model":"mock/echo","messages":[{"role":"user","content":"Hello, weighbridge!"}]}'

  curl -s ${url}/api/v1/usage -H "Authorization: Bearer ${operator}"

Point an SDK here, with that key as its API key:

  export OPENAI_BASE_URL=${url}/v1
  export ANTHROPIC_BASE_URL=${url}

${connectors(providers)}
Ctrl-C stops it; the data stays.
`;
}

function connectors(providers: readonly string[]): string {
  if (providers.length === 0) {
    return 'No vendor key in the environment: only mock/echo answers. Set OPENAI_API_KEY or another one to add a vendor.\n';
  }
  return `Connectors from the environment: ${providers.join(', ')}.\nWARNING: requests to these spend real money on the vendor's bill.\n`;
}

function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
