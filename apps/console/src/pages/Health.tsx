import type { components } from '@weighbridge/client';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Code, LimitBar, Name, Time } from '../ui/bits.tsx';
import { TextField } from '../ui/fields.tsx';
import { Card, Cards, Loaded, Page, Section } from '../ui/Page.tsx';
import { ConfirmModal, RowActions, useDialog } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { List, Table } from '../ui/Table.tsx';
import { bytes, count, milliseconds } from '../ui/text.ts';

type Proxy = components['schemas']['Proxy'];
type Quarantined = components['schemas']['QuarantinedUsage'];

export function Health() {
  return (
    <Page title="Health" lead="Proxies, their spools, and usage that the ledger does not have.">
      <Ledger />
      <Proxies />
      <Quarantine />
    </Page>
  );
}

/** How far the ledger is behind, and what it lacks. */
function Ledger() {
  const query = api.useQuery('get', '/api/v1/ledger');
  return (
    <Section title="Ledger">
      <Loaded query={query}>
        {(ledger) => (
          <Cards>
            <Card
              label="Ledger lag"
              value={milliseconds(ledger.lag_ms)}
              detail={
                <>
                  complete up to <Time at={ledger.as_of} />
                </>
              }
            />
            <Card
              label="Serving proxies"
              value={count(ledger.serving_proxies)}
              detail={`${count(ledger.silent_proxies)} silent for ten seconds`}
            />
            <Card
              label="Waiting usage"
              value={bytes(ledger.waiting_usage_bytes)}
              detail="in the spools of all proxies"
            />
            <Card
              label="Lost spools"
              value={count(ledger.lost_proxies)}
              detail={`${count(ledger.open_proxies)} open`}
            />
            <Card
              label="Gaps"
              value={count(ledger.gaps)}
              detail={
                ledger.gaps > 0
                  ? `the oldest for ${milliseconds(ledger.longest_gap_ms)}`
                  : 'nothing is missing'
              }
            />
            <Card
              label="In quarantine"
              value={count(ledger.quarantined)}
              detail="waiting for a decision below"
            />
          </Cards>
        )}
      </Loaded>
    </Section>
  );
}

function Proxies() {
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/proxies', { params: { query: { page_size: 500 } } });
  return (
    <Section title="Proxies">
      <Loaded query={query}>
        {({ data }) => (
          <Table<Proxy>
            caption="Proxies"
            rows={data}
            rowKey={({ id }) => id}
            columns={[
              {
                title: 'Name',
                value: ({ name, version }) => (
                  <>
                    <Name text={name} />
                    <small>
                      <Name text={version} />
                    </small>
                  </>
                ),
                wrap: true,
              },
              { title: 'Revisions behind', value: ({ lag }) => count(lag), end: true },
              { title: 'In flight', value: (one) => count(one.in_flight_requests), end: true },
              { title: 'Waiting usage', value: (one) => <Spool of={one} />, end: true },
              {
                title: 'Usage',
                value: ({ usage }) =>
                  usage && (
                    <>
                      <Badge tone={usage.state === 'open' ? 'good' : 'warn'}>{usage.state}</Badge>
                      <small>
                        in the ledger up to <Time at={usage.mark_at} />
                      </small>
                    </>
                  ),
              },
              { title: 'Last seen', value: ({ last_seen_at }) => <Time at={last_seen_at} /> },
              {
                title: 'What to do',
                value: ({ usage }) => <Name text={usage?.advice ?? 'Nothing.'} />,
                wrap: true,
              },
              ...(mayWrite
                ? [
                    {
                      title: 'Actions',
                      value: (proxy: Proxy) => (
                        <RowActions
                          of={proxy.name}
                          actions={[
                            {
                              label: 'Retire',
                              danger: true,
                              run: () => open(<Retire proxy={proxy} onClose={close} />),
                            },
                          ]}
                        />
                      ),
                      end: true,
                    },
                  ]
                : []),
            ]}
            empty={<p>No proxy is connected: no request is served. Start a data plane.</p>}
          />
        )}
      </Loaded>
      {dialog}
    </Section>
  );
}

function Spool({ of: { waiting_usage_bytes: waiting, usage_limit_bytes: limit } }: { of: Proxy }) {
  if (limit === null) return <>{bytes(waiting)}</>;
  return (
    <>
      {bytes(waiting)} of {bytes(limit)}
      <LimitBar spent={waiting} limit={limit} label="Waiting usage, of the spool’s limit" />
    </>
  );
}

function Retire({ proxy: { id, name }, onClose }: { proxy: Proxy; onClose: () => void }) {
  return (
    <ConfirmModal
      title={`Retire ${name}`}
      submit="Retire the proxy"
      danger
      act={() => client.POST('/api/v1/proxies/{proxy_id}/retire', { params: { path: { proxy_id: id } } })}
      onClose={onClose}
    >
      <p>
        Only for a proxy that is gone for good. Usage that it never sent counts as lost, and the ledger as
        complete without it.
      </p>
    </ConfirmModal>
  );
}

function Quarantine() {
  const [search] = useSearch();
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/quarantine', {
    params: { query: { state: 'held', ...given(search, ['page_token']) } },
  });
  return (
    <Section title="Quarantine">
      <List<Quarantined>
        query={query}
        caption="Quarantine"
        rowKey={({ id }) => id}
        columns={[
          { title: 'Id', value: ({ id }) => <Code text={id} /> },
          { title: 'Kind', value: ({ kind }) => kind },
          { title: 'Why', value: ({ reason }) => <Name text={reason} />, wrap: true },
          {
            title: 'Principal',
            value: ({ principal_id }) => <Name text={principal_id ?? 'unknown'} />,
            wrap: true,
          },
          { title: 'Received', value: ({ received_at }) => <Time at={received_at} /> },
          ...(mayWrite
            ? [
                {
                  title: 'Actions',
                  value: ({ id }: Quarantined) => (
                    <RowActions
                      of={id}
                      actions={[
                        { label: 'Release', run: () => open(<Release id={id} onClose={close} />) },
                        {
                          label: 'Discard',
                          danger: true,
                          run: () => open(<Discard id={id} onClose={close} />),
                        },
                      ]}
                    />
                  ),
                  end: true,
                },
              ]
            : []),
        ]}
        empty={<p>Nothing is in quarantine.</p>}
      />
      {dialog}
    </Section>
  );
}

function Release({ id, onClose }: { id: string; onClose: () => void }) {
  return (
    <ConfirmModal
      title={`Release ${id}`}
      submit="Release"
      act={() =>
        client.POST('/api/v1/quarantine/{quarantine_id}/release', {
          params: { path: { quarantine_id: id } },
        })
      }
      onClose={onClose}
    >
      <p>The ledger reads it again. If it still refuses it, it goes back to quarantine, with the reason.</p>
    </ConfirmModal>
  );
}

function Discard({ id, onClose }: { id: string; onClose: () => void }) {
  return (
    <ConfirmModal
      title={`Discard ${id}`}
      submit="Discard"
      danger
      act={(_header, { note = '' }) =>
        client.POST('/api/v1/quarantine/{quarantine_id}/discard', {
          params: { path: { quarantine_id: id } },
          body: { note },
        })
      }
      onClose={onClose}
    >
      <p>Its usage never counts. This can’t be undone.</p>
      <TextField label="Why" name="note" required hint="The audit keeps it." />
    </ConfirmModal>
  );
}
