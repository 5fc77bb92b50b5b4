import type { Connector } from '@weighbridge/contracts';
import { signAws } from '@weighbridge/identities';
import { withoutAwsAccount } from '../upstream/bedrock/withoutAwsAccount.ts';
import type { Cancellation } from '../upstream/cancellation.ts';
import type { ConnectorIdentity } from '../upstream/connectorIdentities.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { asObject, errorMessage, namesIn, textOf } from './testedAnswer.ts';

type Cloud = Extract<ConnectorIdentity, { kind: 'aws' | 'google' }>;

/** What a cloud said of its models to the identity of this proxy. */
interface CloudModels {
  readonly ok: boolean;
  readonly status: number;
  readonly message: string;
  readonly region: string;
  readonly models: readonly string[];
}

interface Call {
  readonly baseUrl: string;
  readonly path: string;
  readonly headers: readonly string[];
  /** What an error may repeat. */
  readonly secret: string;
  readonly namesOf: (answer: Readonly<Record<string, unknown>>) => readonly string[];
}

/** Lists the models of a cloud's region, as far as the identity may. It gets the credentials first, and rejects without. */
export async function cloudModels(
  connector: Connector,
  identity: Cloud,
  upstreams: Pick<Upstreams, 'acquirePermit'>,
  cancellation: Cancellation,
): Promise<CloudModels> {
  const calls =
    identity.kind === 'aws'
      ? await bedrockCalls(connector.baseUrl, identity)
      : await vertexCalls(connector.baseUrl, identity);
  const region = identity.kind === 'aws' ? identity.region : identity.location;
  const answers = await Promise.all(
    calls.map(async ({ baseUrl, path, headers, secret, namesOf }) => {
      // These lists are not operations that a connector serves: they have their own connections and headers.
      const listing = { ...connector, id: `${connector.id} models`, baseUrl, identity: NO_IDENTITY };
      const request = { method: 'GET' as const, path, headers: [...headers], body: undefined };
      const { status, body } = await upstreams.acquirePermit(listing).send(request, cancellation);
      const text = await textOf(body, secret);
      return { status, text, names: status < 300 ? namesOf(asObject(text)) : [] };
    }),
  );
  const [refused] = answers.filter(({ status }) => status >= 300);
  const models = [...new Set(answers.flatMap(({ names }) => names))];
  if (!refused) return { ok: true, status: 200, message: ACCEPTED, region, models };
  return { ...verdictOn(refused), region, models };
}

const NO_IDENTITY = { case: undefined } as const;
const ACCEPTED = 'The cloud accepted the credentials.';
const SHOWN_LATER = 'whether they are accepted for a model, a request to it shows.';

/** An identity that lacks the right to list models may still use them. */
function verdictOn({ status, text }: { readonly status: number; readonly text: string }) {
  const said = withoutAwsAccount(errorMessage(text) || String(asObject(text).Message ?? ''));
  const its = said && ` Its message: ${said}`;
  if (status === 404) {
    return { ok: true, status, message: `There are credentials, and no list of models here: ${SHOWN_LATER}` };
  }
  if (status === 403 && /not authorized|denied|permission/i.test(said)) {
    const message = `The cloud accepted the credentials, which may not list models: ${SHOWN_LATER}${its}`;
    return { ok: true, status, message };
  }
  const what =
    status === 401 || status === 403 || status === 400
      ? 'rejected the credentials'
      : `answered with ${status}`;
  return { ok: false, status, message: `The cloud ${what}.${its}` };
}

/** Models are listed by another service than runs them; a private endpoint has both or none. */
const RUNTIME = /^https:\/\/bedrock-runtime(?=[.-])/;

async function bedrockCalls(baseUrl: string, { tokens, region, clockMs }: Extract<Cloud, { kind: 'aws' }>) {
  const credentials = await tokens.get();
  const listUrl = baseUrl.replace(RUNTIME, 'https://bedrock');
  const { host, pathname } = new URL(listUrl);
  const call = async (path: string, namesOf: Call['namesOf']): Promise<Call> => {
    const signed = await signAws(
      { method: 'GET', host, path: pathname.replace(/\/$/, '') + path, contentType: undefined, body: [] },
      credentials,
      { service: 'bedrock', region, now: new Date(clockMs()) },
    );
    const headers = ['accept', 'application/json', ...Object.entries(signed).flat()];
    return { baseUrl: listUrl, path, headers, secret: credentials.accessKeyId, namesOf };
  };
  return await Promise.all([
    call('/foundation-models', ({ modelSummaries }) => namesIn(modelSummaries, 'modelId')),
    call('/inference-profiles', ({ inferenceProfileSummaries }) =>
      namesIn(inferenceProfileSummaries, 'inferenceProfileId'),
    ),
  ]);
}

const PUBLISHERS = ['google', 'anthropic'];

async function vertexCalls(baseUrl: string, { tokens }: Extract<Cloud, { kind: 'google' }>): Promise<Call[]> {
  const { token, project } = await tokens.get();
  const headers = ['accept', 'application/json', 'authorization', `Bearer ${token}`];
  headers.push('x-goog-user-project', project);
  return PUBLISHERS.map((publisher) => ({
    baseUrl: baseUrl.replace(/\/v1\/?$/, '/v1beta1'),
    path: `/publishers/${publisher}/models`,
    headers,
    secret: token,
    namesOf: ({ publisherModels }) => publishedNames(publisherModels),
  }));
}

/** Claude's versions are dates, which stand in requests behind an `@`. */
function publishedNames(list: unknown): string[] {
  const items: readonly unknown[] = Array.isArray(list) ? list : [];
  return items.flatMap((item) => {
    const [name] = namesIn([item], 'name').map((full) => full.replace(/^publishers\/[^/]+\/models\//, ''));
    const [version] = namesIn([item], 'versionId').filter((one) => /^\d{8}$/.test(one));
    return name === undefined ? [] : [version === undefined ? name : `${name}@${version}`];
  });
}
