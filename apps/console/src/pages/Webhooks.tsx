import { useQueryClient } from '@tanstack/react-query';
import type { components } from '@weighbridge/client';
import { useState } from 'react';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name, Time } from '../ui/bits.tsx';
import { Form } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import { Loaded, Page, Pairs } from '../ui/Page.tsx';
import { useSearch } from '../ui/search.ts';
import { Pager, Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';

type Webhook = components['schemas']['Webhook'];

export function Webhooks() {
  const [search] = useSearch();
  const [tested, setTested] = useState<Webhook>();
  const mayWrite = isOperator(useWhoami());
  const page = search.page_token === undefined ? {} : { page_token: search.page_token };
  const query = api.useQuery('get', '/api/v1/webhooks', { params: { query: page } });
  const test = (webhook: Webhook) => (
    <Button small onClick={() => setTested(webhook)}>
      Test
    </Button>
  );
  return (
    <Page title="Alerts & webhooks" lead="Where budgets, connectors and lost usage are told.">
      <Loaded query={query}>
        {({ data, next_page_token }) => (
          <>
            <Table<Webhook>
              caption="Webhooks"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Name', value: ({ name }) => <Name text={name} />, wrap: true },
                {
                  title: 'State',
                  value: ({ enabled, last_error }) => (
                    <Badge tone={last_error ? 'bad' : enabled ? 'good' : 'warn'}>
                      {last_error ? 'failing' : enabled ? 'enabled' : 'disabled'}
                    </Badge>
                  ),
                },
                { title: 'Format', value: ({ format }) => format },
                { title: 'Address', value: ({ url }) => <Code text={url} />, wrap: true },
                { title: 'Events', value: ({ events }) => events.join(', ') || 'all', wrap: true },
                { title: 'Waiting', value: ({ pending }) => count(pending), end: true },
                {
                  title: 'Last delivered',
                  value: ({ last_delivered_at }) => <Time at={last_delivered_at} />,
                },
                {
                  title: 'Last error',
                  value: ({ last_error }) => <Name text={last_error ?? '–'} />,
                  wrap: true,
                },
                ...(mayWrite ? [{ title: 'Change', value: test, end: true }] : []),
              ]}
              empty={
                <p>
                  No webhook: no one is told when a budget is exhausted. Create one with the API or the
                  command line.
                </p>
              }
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
      {tested && <Test webhook={tested} onClose={() => setTested(undefined)} />}
    </Page>
  );
}

function Test({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const queries = useQueryClient();
  const [result, setResult] = useState<components['schemas']['WebhookTest']>();
  const send = async () => {
    const params = { path: { webhook_id: webhook.id } };
    const { data } = await client.POST('/api/v1/webhooks/{webhook_id}/test', { params });
    setResult(data);
    await queries.invalidateQueries({ queryKey: ['get', '/api/v1/webhooks'] });
  };
  return (
    <Modal title={`Test ${webhook.name}`} onClose={onClose}>
      <p>Sends a message that is marked as a test.</p>
      {result && (
        <Pairs
          of={Object.entries(result).map(
            ([name, value]) => [name, <Code key={name} text={String(value)} />] as const,
          )}
        />
      )}
      <Form submit="Send" onSubmit={send} onCancel={onClose} />
    </Modal>
  );
}
