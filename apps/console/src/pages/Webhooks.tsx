import type { components } from '@weighbridge/client';
import { useState } from 'react';
import { words } from '../api/choices.ts';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name, Time } from '../ui/bits.tsx';
import type { FieldSpec } from '../ui/fieldSpecs.ts';
import { Form } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import type { Action } from '../ui/MoreMenu.tsx';
import { Loaded, Page, Pairs, Problem } from '../ui/Page.tsx';
import {
  ConfirmModal,
  CreateModal,
  EditModal,
  KEEP_OPEN,
  RowActions,
  SecretModal,
  useDialog,
  useReload,
} from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { List, Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';

type Webhook = components['schemas']['Webhook'];
type Delivery = components['schemas']['WebhookDelivery'];
interface WebhookDialog {
  readonly webhook: Webhook;
  readonly onClose: () => void;
}

export function Webhooks() {
  const [search] = useSearch();
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/webhooks', { params: { query: given(search, ['page_token']) } });
  const showSecret = (secret: string) => open(<Secret secret={secret} onClose={close} />);
  const actions = (webhook: Webhook): Action[] => [
    { label: 'Deliveries', run: () => open(<Deliveries webhook={webhook} onClose={close} />) },
    ...(mayWrite
      ? [
          { label: 'Test', run: () => open(<Test webhook={webhook} onClose={close} />) },
          { label: 'Edit', run: () => open(<Edit webhook={webhook} onClose={close} />) },
          {
            label: webhook.enabled ? 'Pause' : 'Resume',
            run: () => open(<Pause webhook={webhook} onClose={close} />),
          },
          {
            label: 'New secret',
            run: () => open(<Rotate webhook={webhook} onClose={close} onSecret={showSecret} />),
          },
          { label: 'Delete', danger: true, run: () => open(<Delete webhook={webhook} onClose={close} />) },
        ]
      : []),
  ];
  return (
    <Page
      title="Alerts & webhooks"
      lead="Messages to your systems about budgets, connectors, prices, keys and lost usage."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => open(<Create onClose={close} onSecret={showSecret} />)}>
            Create a webhook
          </Button>
        )
      }
    >
      <List<Webhook>
        query={query}
        caption="Webhooks"
        rowKey={({ id }) => id}
        columns={[
          {
            title: 'Name',
            value: ({ name, url }) => (
              <>
                <Name text={name} />
                <small>
                  <Code text={url} />
                </small>
              </>
            ),
            wrap: true,
          },
          {
            title: 'State',
            value: ({ enabled, last_error }) => (
              <>
                <Badge tone={last_error ? 'bad' : enabled ? 'good' : 'warn'}>
                  {last_error ? 'failing' : enabled ? 'enabled' : 'paused'}
                </Badge>
                {last_error && (
                  <small>
                    <Name text={last_error} />
                  </small>
                )}
              </>
            ),
            wrap: true,
          },
          { title: 'Format', value: ({ format }) => format, spare: true },
          { title: 'Events', value: ({ events }) => events.join(', ') || 'all', wrap: true },
          { title: 'Waiting', value: ({ pending }) => count(pending), end: true },
          { title: 'Last delivered', value: ({ last_delivered_at }) => <Time at={last_delivered_at} /> },
          {
            title: 'Actions',
            value: (webhook) => <RowActions of={webhook.name} actions={actions(webhook)} />,
            end: true,
          },
        ]}
        empty={<p>No webhook: no one is told when a budget is exhausted or a vendor is down.</p>}
      />
      {dialog}
    </Page>
  );
}

const EVENTS = [
  'budget.threshold',
  'budget.exhausted',
  'connector.down',
  'price.missing',
  'price.stale',
  'usage.quarantined',
  'usage.gap',
  'key.expiring',
  'feed.refused',
];
const SPECS: readonly FieldSpec[] = [
  { name: 'name', label: 'Name', kind: 'text', required: true },
  {
    name: 'format',
    label: 'Format',
    kind: 'choice',
    choices: words('json', 'slack', 'teams', 'pagerduty'),
    initial: 'json',
  },
  {
    name: 'url',
    label: 'Address',
    kind: 'text',
    required: true,
    hint: 'https:// and public, or a host of ALLOWED_WEBHOOK_HOSTS.',
  },
  {
    name: 'routing_key',
    label: 'Integration key',
    kind: 'secret',
    hint: 'For the format pagerduty. It is never shown.',
  },
  {
    name: 'events',
    label: 'Events',
    kind: 'lines',
    hint: `One a line, of ${EVENTS.join(', ')}. Empty: all.`,
  },
  {
    name: 'filter.team_ids',
    label: 'Only of these teams',
    kind: 'lines',
    hint: 'One id a line. Empty: all.',
  },
  {
    name: 'filter.policy_ids',
    label: 'Only of these policies',
    kind: 'lines',
    hint: 'One id a line. Empty: all.',
  },
];

function Create({ onClose, onSecret }: { onClose: () => void; onSecret: (secret: string) => void }) {
  return (
    <CreateModal
      title="Create a webhook"
      specs={SPECS}
      create={async (values) => {
        const { data } = await client.POST('/api/v1/webhooks', { body: values as never });
        onSecret(data?.secret ?? '');
        return KEEP_OPEN;
      }}
      onClose={onClose}
    />
  );
}

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <SecretModal title="Copy this secret now" secret={secret} onClose={onClose}>
      <p>It is shown once. Whoever receives the messages checks their signatures with it.</p>
    </SecretModal>
  );
}

const readWebhook = (id: string) => () =>
  client.GET('/api/v1/webhooks/{webhook_id}', { params: { path: { webhook_id: id } } });

function Edit({ webhook: { id, name }, onClose }: WebhookDialog) {
  return (
    <EditModal
      title={`Edit ${name}`}
      id={id}
      specs={SPECS}
      read={readWebhook(id)}
      save={(body, header) =>
        client.PATCH('/api/v1/webhooks/{webhook_id}', { params: { path: { webhook_id: id }, header }, body })
      }
      onClose={onClose}
    />
  );
}

function Pause({ webhook: { id, name, enabled }, onClose }: WebhookDialog) {
  const verb = enabled ? 'Pause' : 'Resume';
  return (
    <ConfirmModal
      title={`${verb} ${name}`}
      submit={verb}
      id={id}
      read={readWebhook(id)}
      act={(header) =>
        client.PATCH('/api/v1/webhooks/{webhook_id}', {
          params: { path: { webhook_id: id }, header },
          body: { enabled: !enabled },
        })
      }
      onClose={onClose}
    >
      <p>
        {enabled
          ? 'It gets no messages until it is resumed.'
          : 'It gets messages about what happens from now on.'}
      </p>
    </ConfirmModal>
  );
}

function Rotate({
  webhook: { id, name },
  onClose,
  onSecret,
}: WebhookDialog & { onSecret: (secret: string) => void }) {
  return (
    <ConfirmModal
      title={`New secret of ${name}`}
      submit="Make a new secret"
      id={id}
      read={readWebhook(id)}
      act={async (header) => {
        const { data } = await client.POST('/api/v1/webhooks/{webhook_id}/rotate', {
          params: { path: { webhook_id: id }, header },
          body: { grace_seconds: 86_400 },
        });
        onSecret(data?.secret ?? '');
        return KEEP_OPEN;
      }}
      onClose={onClose}
    >
      <p>For a day, messages carry the signatures of both secrets.</p>
    </ConfirmModal>
  );
}

function Delete({ webhook: { id, name }, onClose }: WebhookDialog) {
  return (
    <ConfirmModal
      title={`Delete ${name}`}
      submit="Delete the webhook"
      danger
      id={id}
      read={readWebhook(id)}
      act={(header) =>
        client.DELETE('/api/v1/webhooks/{webhook_id}', { params: { path: { webhook_id: id }, header } })
      }
      onClose={onClose}
    >
      <p>Messages that wait for it are not delivered.</p>
    </ConfirmModal>
  );
}

function Test({ webhook: { id, name }, onClose }: WebhookDialog) {
  const reload = useReload();
  const [result, setResult] = useState<components['schemas']['WebhookTest']>();
  const send = async () => {
    const params = { path: { webhook_id: id } };
    const { data } = await client.POST('/api/v1/webhooks/{webhook_id}/test', { params });
    setResult(data);
    await reload();
  };
  return (
    <Modal title={`Test ${name}`} onClose={onClose}>
      <p>Sends a message that is marked as a test.</p>
      {result && (
        <Pairs
          of={[
            [
              'Result',
              <Badge key="ok" tone={result.ok ? 'good' : 'bad'}>
                {result.ok ? 'received' : 'failed'}
              </Badge>,
            ],
            ['Message', <Name key="message" text={result.message} />],
            ['Status', result.status ?? 'no answer'],
            ['Took', `${result.latency_ms} ms`],
          ]}
        />
      )}
      <Form submit="Send" onSubmit={send} onCancel={onClose} cancel="Close" />
    </Modal>
  );
}

/** The log of a webhook; what failed can be sent again. */
function Deliveries({ webhook: { id, name }, onClose }: WebhookDialog) {
  const mayWrite = isOperator(useWhoami());
  const reload = useReload();
  const [failure, setFailure] = useState<unknown>();
  const query = api.useQuery('get', '/api/v1/webhooks/{webhook_id}/deliveries', {
    params: { path: { webhook_id: id }, query: { page_size: 50 } },
  });
  const again = (delivery_id: string) => {
    setFailure(undefined);
    client
      .POST('/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver', {
        params: { path: { webhook_id: id, delivery_id } },
      })
      .then(reload)
      .catch(setFailure);
  };
  return (
    <Modal title={`Deliveries to ${name}`} onClose={onClose} wide>
      <Loaded query={query}>
        {({ data }) => (
          <Table<Delivery>
            caption={`Deliveries to ${name}`}
            rows={data}
            rowKey={({ id: one }) => one}
            columns={[
              { title: 'At', value: ({ created_at }) => <Time at={created_at} /> },
              { title: 'Event', value: ({ event }) => <Code text={event.type} /> },
              {
                title: 'State',
                value: ({ state }) => (
                  <Badge tone={state === 'delivered' ? 'good' : state === 'pending' ? 'plain' : 'bad'}>
                    {state.replace('_', ' ')}
                  </Badge>
                ),
              },
              { title: 'Attempts', value: ({ attempts }) => count(attempts), end: true },
              { title: 'Status', value: ({ status }) => status ?? '–', end: true },
              { title: 'Error', value: ({ error }) => <Name text={error ?? '–'} />, wrap: true },
              ...(mayWrite
                ? [
                    {
                      title: 'Actions',
                      value: ({ id: one }: Delivery) => (
                        <RowActions of={one} actions={[{ label: 'Send again', run: () => again(one) }]} />
                      ),
                      end: true,
                    },
                  ]
                : []),
            ]}
            empty={<p>Nothing was delivered yet.</p>}
          />
        )}
      </Loaded>
      {failure !== undefined && <Problem error={failure} />}
    </Modal>
  );
}
