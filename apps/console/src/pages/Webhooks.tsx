import type { components } from '@weighbridge/client';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  rotateWebhook,
  updateWebhook,
} from '@weighbridge/client/operations';
import { useState } from 'react';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name, Time } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Form } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import type { Action } from '../ui/MoreMenu.tsx';
import { Loaded, Page, Pairs, Problem } from '../ui/Page.tsx';
import { KEEP_OPEN, RowActions, SecretModal, useReload } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import type { ShownFields } from '../ui/specs.ts';
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
  const { dialog, open, close, create, edit, remove, confirm } = useResource(WEBHOOKS);
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/webhooks', { params: { query: given(search, ['page_token']) } });
  const showNew = ({ secret }: { secret: string }) => {
    open(<Secret secret={secret} onClose={close} />);
    return KEEP_OPEN;
  };
  const pause = (webhook: Webhook) => {
    const verb = webhook.enabled ? 'Pause' : 'Resume';
    confirm(updateWebhook, webhook, {
      title: `${verb} ${webhook.name}`,
      submit: verb,
      body: { enabled: !webhook.enabled },
      text: webhook.enabled
        ? 'It gets no messages until it is resumed.'
        : 'It gets messages about what happens from now on.',
    });
  };
  const rotate = (webhook: Webhook) =>
    confirm(rotateWebhook, webhook, {
      title: `New secret of ${webhook.name}`,
      submit: 'Make a new secret',
      body: { grace_seconds: 86_400 },
      text: 'For a day, messages carry the signatures of both secrets.',
      done: showNew,
    });
  const actions = (webhook: Webhook): Action[] => [
    { label: 'Deliveries', run: () => open(<Deliveries webhook={webhook} onClose={close} />) },
    ...(mayWrite
      ? [
          { label: 'Test', run: () => open(<Test webhook={webhook} onClose={close} />) },
          { label: 'Edit', run: () => edit(webhook) },
          { label: webhook.enabled ? 'Pause' : 'Resume', run: () => pause(webhook) },
          { label: 'New secret', run: () => rotate(webhook) },
          { label: 'Delete', danger: true, run: () => remove(webhook) },
        ]
      : []),
  ];
  return (
    <Page
      title="Alerts & webhooks"
      lead="Messages to your systems about budgets, connectors, prices, keys and lost usage."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => create(showNew)}>
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

const FIELDS: ShownFields<keyof components['schemas']['NewWebhook']> = {
  name: { hint: 'Unique.' },
  format: { initial: 'json' },
  url: { label: 'Address', hint: 'https:// and public, or a host of ALLOWED_WEBHOOK_HOSTS.' },
  routing_key: {
    label: 'Integration key',
    kind: 'secret',
    hint: 'For the format pagerduty. It is never shown.',
  },
  events: {
    hint: `One a line, of ${createWebhook.body.events?.items?.choices?.join(', ')}. Empty: all.`,
  },
  'filter.team_ids': { label: 'Only of these teams', hint: 'One id a line. Empty: all.' },
  'filter.policy_ids': { label: 'Only of these policies', hint: 'One id a line. Empty: all.' },
  // The service makes the secret; Pause and Resume are actions.
  secret: null,
  enabled: null,
};
export const WEBHOOKS: Resource<Webhook> = {
  noun: 'webhook',
  create: createWebhook,
  read: getWebhook,
  update: updateWebhook,
  remove: deleteWebhook,
  fields: FIELDS,
  removal: () => 'Messages that wait for it are not delivered.',
};

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <SecretModal title="Copy this secret now" secret={secret} onClose={onClose}>
      <p>It is shown once. Whoever receives the messages checks their signatures with it.</p>
    </SecretModal>
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
