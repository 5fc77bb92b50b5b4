import type { components } from '@weighbridge/client';
import {
  createConnector,
  deleteConnector,
  getConnector,
  updateConnector,
} from '@weighbridge/client/operations';
import { useState } from 'react';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Form } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import type { Action } from '../ui/MoreMenu.tsx';
import { Page, Pairs, Stale } from '../ui/Page.tsx';
import { RowActions } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import type { ShownFields } from '../ui/specs.ts';
import { List } from '../ui/Table.tsx';
import { count, milliseconds, percent } from '../ui/text.ts';
import { ConnectorPrices } from './ConnectorPrices.tsx';

type Connector = components['schemas']['Connector'];
type Health = components['schemas']['ConnectorHealth'];
interface ConnectorDialog {
  readonly connector: Connector;
  readonly onClose: () => void;
}

export function Connectors() {
  const [search] = useSearch();
  const { dialog, open, close, create, edit, remove, confirm } = useResource(CONNECTORS);
  const mayWrite = isOperator(useWhoami());
  const params = { query: given(search, ['page_token']) };
  const query = api.useQuery('get', '/api/v1/connectors', { params });
  const health = api.useQuery('get', '/api/v1/connectors/health', { params });
  const healthOf = new Map(health.data?.data.map((one) => [one.connector_id, one]));
  const toggle = (connector: Connector) => {
    const verb = connector.enabled ? 'Disable' : 'Enable';
    confirm(updateConnector, connector, {
      title: `${verb} ${connector.name}`,
      submit: verb,
      body: { enabled: !connector.enabled },
      text: connector.enabled
        ? 'No request goes to this account until it is enabled again.'
        : 'Requests go to this account again.',
    });
  };
  const actions = (connector: Connector): Action[] => [
    { label: 'Prices', run: () => open(<ConnectorPrices connector={connector} onClose={close} />) },
    ...(mayWrite
      ? [
          { label: 'Test', run: () => open(<Test connector={connector} onClose={close} />) },
          { label: 'Edit', run: () => edit(connector) },
          { label: connector.enabled ? 'Disable' : 'Enable', run: () => toggle(connector) },
          { label: 'Delete', danger: true, run: () => remove(connector) },
        ]
      : []),
  ];
  return (
    <Page
      title="Connectors"
      lead="Accounts at vendors. The lowest priority number is tried first; weights share requests within a priority."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => create()}>
            Add a connector
          </Button>
        )
      }
    >
      {health.error != null && <Stale error={health.error} onRetry={() => void health.refetch()} />}
      <List<Connector>
        query={query}
        caption="Connectors"
        rowKey={({ id }) => id}
        columns={[
          {
            title: 'Name',
            value: ({ name, provider }) => (
              <>
                <Name text={name} />
                <small>
                  <Name text={provider} />
                </small>
              </>
            ),
            wrap: true,
          },
          { title: 'State', value: (one) => <State of={one} health={healthOf.get(one.id)} />, wrap: true },
          {
            title: 'Failed, 5 min',
            value: ({ id }) => <FailureRate of={healthOf.get(id)} />,
            end: true,
          },
          {
            title: 'Address',
            value: ({ base_url, dialect, auth, credential_bound, credential_hosts }) => (
              <>
                <Code text={base_url} />
                <small>
                  {dialect}, {IDENTITIES[auth.kind]}
                </small>
                {credential_bound !== null && (
                  <small>
                    <Name text={`credential for ${hostsText(credential_hosts)}`} />
                  </small>
                )}
              </>
            ),
            wrap: true,
          },
          { title: 'Priority', value: ({ priority }) => priority, end: true },
          { title: 'Weight', value: ({ weight }) => weight, end: true },
          {
            title: 'Actions',
            value: (one) => <RowActions of={one.name} actions={actions(one)} />,
            end: true,
          },
        ]}
        empty={<p>No connector: no vendor can be reached. Add one with an account’s key.</p>}
      />
      {dialog}
    </Page>
  );
}

/** Where the deployment lets a credential go. */
function hostsText(hosts: Connector['credential_hosts']): string {
  if (hosts === null) return 'any host';
  return hosts.join(', ') || 'no host';
}

/** How an account knows who calls. */
const IDENTITIES: Readonly<Record<Connector['auth']['kind'], string>> = {
  key: 'by key',
  none: 'without a key',
  oauth: 'by OAuth',
  azure: 'by an identity of Azure',
  aws: 'by an identity of AWS',
  google: 'by an identity of Google',
};

function State({
  of: { enabled, usable, unusable_reason },
  health,
}: {
  of: Connector;
  health: Health | undefined;
}) {
  if (!enabled) return <Badge tone="warn">disabled</Badge>;
  if (!usable) {
    return (
      <>
        <Badge tone="bad">not usable</Badge>
        <small>
          <Name text={unusable_reason ?? ''} />
        </small>
      </>
    );
  }
  if (!health || health.state === 'closed') return <Badge tone="good">usable</Badge>;
  return <Breakers of={health} />;
}

const BREAKERS = {
  closed: 'usable',
  half_open: 'trying again',
  open: 'too many failures',
  dead: 'credential refused',
} as const;

/** The proxies that send it nothing, or little. */
function Breakers({ of: { state, proxies, not_closed_at } }: { of: Health }) {
  const shown = proxies.slice(0, 3).map(({ proxy_name, down_for_ms }) => {
    return down_for_ms > 0 ? `${proxy_name} for ${milliseconds(down_for_ms)}` : proxy_name;
  });
  const more = not_closed_at - shown.length;
  return (
    <>
      <Badge tone={state === 'half_open' ? 'warn' : 'bad'}>{BREAKERS[state]}</Badge>
      <small>
        <Name text={`at ${shown.join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`} />
      </small>
    </>
  );
}

function FailureRate({ of }: { of: Health | undefined }) {
  if (!of || of.attempts === 0) return <>–</>;
  return (
    <>
      {percent(of.failed_attempts, of.attempts)}
      <small>of {count(of.attempts)}</small>
    </>
  );
}

const PROXYS = 'Empty: the proxy’s setting.';
const FIELDS: ShownFields<keyof components['schemas']['NewConnector']> = {
  name: {},
  provider: { hint: 'Such as openai.' },
  base_url: { label: 'Address', hint: 'Empty, of a new one: the provider’s.' },
  dialect: { hint: 'Default: the provider’s.' },
  credential_ref: {
    label: 'Where the credential is',
    hint: 'env:NAME or file:/path of the control plane.',
  },
  credential: {
    label: 'Or the credential itself',
    kind: 'secret',
    hint: 'It is stored sealed and never shown.',
  },
  priority: { initial: '0', hint: 'Lower numbers are tried first.' },
  weight: { initial: '1', hint: 'Its share among those of the same priority.' },
  max_parallel: { label: 'Requests in parallel', hint: 'Empty: no limit.' },
  requests_per_minute: {
    label: 'Requests a minute',
    hint: 'What the vendor grants the account. Empty: no limit.',
  },
  tokens_per_minute: { label: 'Tokens a minute', hint: 'Empty: no limit.' },
  connect_timeout_ms: { label: 'Timeout to connect, in ms', hint: PROXYS },
  first_byte_timeout_ms: { label: 'Timeout of the first byte, in ms', hint: PROXYS },
  chunk_timeout_ms: { label: 'Timeout between parts of a stream, in ms', hint: PROXYS },
  models: { label: 'Models that it serves', hint: 'One pattern a line. Empty: all of its provider.' },
  forward_headers: { hint: 'Headers of clients that it gets, one a line.' },
  upstream_names: {
    label: 'What it calls models',
    hint: 'One a line: <provider>/<model>, a space and what the account calls it.',
  },
  // Identities of clouds take the CLI or a file; Enable and Disable are actions.
  auth: null,
  enabled: null,
};
export const CONNECTORS: Resource<Connector> = {
  noun: 'connector',
  create: createConnector,
  createVerb: 'Add',
  read: getConnector,
  update: updateConnector,
  remove: deleteConnector,
  fields: FIELDS,
  removal: () =>
    'Requests go to the provider’s other accounts, if there are any. Its negotiated prices end too.',
};

function Test({ connector: { id, name }, onClose }: ConnectorDialog) {
  const [result, setResult] = useState<components['schemas']['ConnectorTest']>();
  const run = async () => {
    const params = { path: { connector_id: id } };
    const { data } = await client.POST('/api/v1/connectors/{connector_id}/test', { params });
    setResult(data);
  };
  return (
    <Modal title={`Test ${name}`} onClose={onClose}>
      <p>Asks the vendor for its models, from the control plane and from a proxy.</p>
      {result && (
        <Pairs
          of={[
            [
              'Result',
              <Badge key="ok" tone={result.ok ? 'good' : 'bad'}>
                {result.ok ? 'works' : 'fails'}
              </Badge>,
            ],
            ['Message', <Name key="message" text={result.message} />],
            ['Took', `${result.latency_ms} ms`],
            ['Identity', <Name key="identity" text={result.identity ?? '–'} />],
          ]}
        />
      )}
      <Form submit="Test" onSubmit={run} onCancel={onClose} cancel="Close" />
    </Modal>
  );
}
