export interface BannerFacts {
  readonly url: string;
  readonly dataDir: string;
  /** Undefined if the database existed before, with another operator key. */
  readonly operatorKeyFile: string | undefined;
  /** Signs the operator in to the console, once; undefined if other machines may reach the service, or the key is not known. */
  readonly signInUrl: string | undefined;
  /** The providers with a connector from the environment. */
  readonly providers: readonly string[];
  /** How to run a command in the container that this is, such as `docker exec 0123456789ab`; undefined outside of one. */
  readonly execInContainer: string | undefined;
  /** Of Node, such as `v24.9.0`. */
  readonly nodeVersion: string;
}

/** Commands to start with, ready to paste in any folder. */
export function banner(facts: BannerFacts): string {
  const { url, dataDir, operatorKeyFile, signInUrl, providers, execInContainer, nodeVersion } = facts;
  const cat = execInContainer ? `${execInContainer} cat` : 'cat';
  const operator = operatorKeyFile ? `$(${cat} ${shellQuoted(operatorKeyFile)})` : '<OPERATOR_KEY>';
  return `
Weighbridge is ready at ${url}
Console:      ${url}/console/
${signInUrl ? `Sign in:      ${signInUrl} (once, within 15 minutes)\n` : ''}Operator key: ${operatorKeyFile ?? 'the one this database was set up with'}
Data:         ${dataDir}
API:          ${url}/docs

Issue a key for an application, send a request, and read what it cost:

  KEY=$(curl -s ${url}/api/v1/keys -H "Authorization: Bearer ${operator}" -H "Content-Type: application/json" -d '{"name":"my app","scopes":["inference","usage:read"]}' | sed -n 's/.*"key":"\\([^"]*\\)".*/\\1/p')

  ANSWER=$(curl -si ${url}/v1/chat/completions -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" -d '{"model":"mock/echo","messages":[{"role":"user","content":"Hello, weighbridge!"}]}'); echo "$ANSWER"

  ${readRequest(url)}

To use an SDK, give it that key and this base URL:

  export OPENAI_BASE_URL=${url}/v1
  export ANTHROPIC_BASE_URL=${url}

docs/clients.md has the settings for other SDKs, and for coding agents.

${connectors(providers)}${nodeAdvice(nodeVersion)}
Press Ctrl-C to stop. The data is kept.
`;
}

/** Reads the request of `$ANSWER` from the ledger, which has it about a second later: curl tries again until then. */
function readRequest(url: string): string {
  const id = `$(echo "$ANSWER" | sed -n 's/^x-request-id: *\\(req_[a-z0-9]*\\).*/\\1/p')`;
  return `curl -sf --retry 30 --retry-delay 1 --retry-all-errors ${url}/api/v1/requests/${id} -H "Authorization: Bearer $KEY"`;
}

function connectors(providers: readonly string[]): string {
  if (providers.length === 0) {
    return 'No vendor key in the environment, so only mock/echo is available. Set OPENAI_API_KEY or another vendor key to add one.\n';
  }
  return `Connectors from the environment: ${providers.join(', ')}.\nWARNING: requests to these cost real money at the vendor.\n`;
}

const BEST_NODE = 24;

/** A line if an older Node than that of the images runs the service: it works, at a higher cost. */
function nodeAdvice(version: string): string {
  if (Number.parseInt(version.slice(1), 10) >= BEST_NODE) return '';
  return `Node ${version} works. Node ${BEST_NODE}, as in the images, needs about a third less CPU for a request: prefer it.\n`;
}

function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
