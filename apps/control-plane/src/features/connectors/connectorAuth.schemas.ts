import { type Static, Type } from 'typebox';
import { OneOf } from '../../shared/schemas.ts';

const Text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }));

/** How requests to a connector are authorised. Only the fields of its kind are there. */
export const ConnectorAuth = Type.Object(
  {
    kind: OneOf(['key', 'none', 'oauth', 'aws', 'google', 'azure'], {
      title: 'ConnectorAuthKind',
      description:
        '`key`: by the credential. `none`: by nothing. `oauth`: by access tokens that proxies get by OAuth 2.0 client credentials. `aws`: by SigV4, for Bedrock. `google`: by access tokens of Google Cloud, for Vertex AI. `azure`: by access tokens of Microsoft Entra ID.',
    }),
    token_url: Text(2_048, 'Of `oauth`: where the authorization server issues tokens.'),
    client_id: Text(
      1_024,
      'Of `oauth` and `azure`. Without it, `azure` has the identity of the proxy: its environment, pod or machine.',
    ),
    client_secret: Text(
      8_192,
      'Of `oauth`, and of `azure` with `tenant_id` and `client_id`: `env:NAME`, `file:/path`, or the secret itself, which is stored sealed and shown as `sealed`. `sealed` keeps the one that is stored.',
    ),
    client_authentication: Type.Optional(
      OneOf(['post', 'basic'], {
        title: 'ClientAuthentication',
        description:
          'Of `oauth`: the client proves who it is in the body (`post`, the default) or in the authorization header (`basic`).',
      }),
    ),
    scope: Text(
      2_048,
      'Of `oauth`: scopes, separated by spaces. Of `azure`: the resource, by default `https://cognitiveservices.azure.com/.default`.',
    ),
    audience: Text(2_048, 'Of `oauth`: the API that the tokens are for, if the server wants to know.'),
    tenant_id: Text(128, "Of `azure`: the tenant, by default that of the proxy's environment."),
    authority_host: Text(
      2_048,
      'Of `azure`: where tokens are issued, such as `https://login.microsoftonline.us`. Default: the public cloud.',
    ),
    region: Text(64, 'Of `aws`, such as `eu-central-1`.'),
    access_key_id: Text(
      128,
      'Of `aws`; without it, the identity of the proxy: its environment, profile, pod or machine.',
    ),
    secret_access_key: Text(1_024, 'Of `aws`, with `access_key_id`; given as `client_secret` is.'),
    session_token: Text(8_192, 'Of `aws`, if the keys are temporary; given as `client_secret` is.'),
    role_arn: Text(2_048, 'Of `aws`: a role to assume.'),
    external_id: Text(1_224, 'Of `aws`, with `role_arn`, if the role asks for it.'),
    project: Text(64, 'Of `google`: the id of the project; without it, that of the credentials.'),
    location: Text(64, 'Of `google`, such as `europe-west1`; without it, `global`.'),
    credentials: Text(
      8_192,
      'Of `google`: the key of a service account, as JSON; given as `client_secret` is. Without it, the identity of the proxy: its environment, workload identity or machine.',
    ),
  },
  {
    title: 'ConnectorAuth',
    description: 'How requests to the upstream are authorised.',
    additionalProperties: false,
    examples: [{ kind: 'key' }],
  },
);
export type ConnectorAuth = Static<typeof ConnectorAuth>;
