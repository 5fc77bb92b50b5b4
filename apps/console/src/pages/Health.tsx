import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { Badge, Code, Name, Time } from '../ui/bits.tsx';
import { Loaded, Page, Section } from '../ui/Page.tsx';
import { Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';

type Proxy = components['schemas']['Proxy'];
type Quarantined = components['schemas']['QuarantinedUsage'];

export function Health() {
  const proxies = api.useQuery('get', '/api/v1/proxies', { params: { query: { page_size: 500 } } });
  const quarantine = api.useQuery('get', '/api/v1/quarantine', { params: { query: { state: 'held' } } });
  return (
    <Page title="Health" lead="Proxies, what waits in their spools, and usage that the ledger lacks.">
      <Section title="Proxies">
        <Loaded query={proxies}>
          {({ data }) => (
            <Table<Proxy>
              caption="Proxies"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Name', value: ({ name }) => <Name text={name} />, wrap: true },
                { title: 'Version', value: ({ version }) => <Name text={version} /> },
                { title: 'Revisions behind', value: ({ lag }) => count(lag), end: true },
                { title: 'In flight', value: (one) => count(one.in_flight_requests), end: true },
                {
                  title: 'Usage that waits',
                  value: (one) => `${count(one.waiting_usage_bytes)} B`,
                  end: true,
                },
                {
                  title: 'Usage',
                  value: ({ usage }) =>
                    usage && <Badge tone={usage.state === 'open' ? 'good' : 'warn'}>{usage.state}</Badge>,
                },
                { title: 'In the ledger up to', value: ({ usage }) => <Time at={usage?.mark_at} /> },
                { title: 'Last seen', value: ({ last_seen_at }) => <Time at={last_seen_at} /> },
                {
                  title: 'What to do',
                  value: ({ usage }) => usage?.advice && <Name text={usage.advice} />,
                  wrap: true,
                },
              ]}
              empty={<p>No proxy is connected: no request is served. Start a data plane.</p>}
            />
          )}
        </Loaded>
      </Section>
      <Section title="Quarantine">
        <Loaded query={quarantine}>
          {({ data }) => (
            <Table<Quarantined>
              caption="Quarantine"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Id', value: ({ id }) => <Code text={id} /> },
                { title: 'Kind', value: ({ kind }) => kind },
                { title: 'Why', value: ({ reason }) => <Name text={reason} />, wrap: true },
                { title: 'Received', value: ({ received_at }) => <Time at={received_at} /> },
              ]}
              empty={<p>Nothing is held.</p>}
            />
          )}
        </Loaded>
      </Section>
    </Page>
  );
}
