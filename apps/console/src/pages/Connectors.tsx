import { useQueryClient } from '@tanstack/react-query';
import type { components } from '@weighbridge/client';
import { useState } from 'react';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name } from '../ui/bits.tsx';
import controls from '../ui/controls.module.css';
import { Form } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import { Loaded, Page, Pairs } from '../ui/Page.tsx';
import { useSearch } from '../ui/search.ts';
import { Pager, Table } from '../ui/Table.tsx';

type Connector = components['schemas']['Connector'];
type Change = { readonly what: 'test' | 'toggle'; readonly connector: Connector };

export function Connectors() {
  const [search] = useSearch();
  const [change, setChange] = useState<Change>();
  const mayWrite = isOperator(useWhoami());
  const page = search.page_token === undefined ? {} : { page_token: search.page_token };
  const query = api.useQuery('get', '/api/v1/connectors', { params: { query: page } });
  const actions = (connector: Connector) => (
    <span className={controls.actions}>
      <Button small onClick={() => setChange({ what: 'test', connector })}>
        Test
      </Button>
      <Button small onClick={() => setChange({ what: 'toggle', connector })}>
        {connector.enabled ? 'Disable' : 'Enable'}
      </Button>
    </span>
  );
  return (
    <Page
      title="Connectors"
      lead="Accounts at vendors. The lowest priority comes first; the weight shares within it."
    >
      <Loaded query={query}>
        {({ data, next_page_token }) => (
          <>
            <Table<Connector>
              caption="Connectors"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Name', value: ({ name }) => <Name text={name} />, wrap: true },
                { title: 'State', value: (one) => <State of={one} />, wrap: true },
                { title: 'Provider', value: ({ provider }) => <Name text={provider} /> },
                { title: 'Dialect', value: ({ dialect }) => dialect },
                { title: 'Address', value: ({ base_url }) => <Code text={base_url} />, wrap: true },
                { title: 'Priority', value: ({ priority }) => priority, end: true },
                { title: 'Weight', value: ({ weight }) => weight, end: true },
                ...(mayWrite ? [{ title: 'Change', value: actions, end: true }] : []),
              ]}
              empty={<p>No connector. Create one to reach a vendor.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
      {change && <Dialog change={change} onClose={() => setChange(undefined)} />}
    </Page>
  );
}

function State({ of: { enabled, usable, unusable_reason } }: { of: Connector }) {
  if (!enabled) return <Badge tone="warn">disabled</Badge>;
  if (usable) return <Badge tone="good">usable</Badge>;
  return (
    <>
      <Badge tone="bad">not usable</Badge> <Name text={unusable_reason ?? ''} />
    </>
  );
}

function Dialog({ change: { what, connector }, onClose }: { change: Change; onClose: () => void }) {
  const queries = useQueryClient();
  const [result, setResult] = useState<components['schemas']['ConnectorTest']>();
  const path = { connector_id: connector.id };
  const run = async () => {
    if (what === 'test') {
      const { data } = await client.POST('/api/v1/connectors/{connector_id}/test', { params: { path } });
      setResult(data);
      return;
    }
    await client.PATCH('/api/v1/connectors/{connector_id}', {
      params: { path },
      body: { enabled: !connector.enabled },
    });
    await queries.invalidateQueries({ queryKey: ['get', '/api/v1/connectors'] });
    onClose();
  };
  const verb = what === 'test' ? 'Test' : connector.enabled ? 'Disable' : 'Enable';
  return (
    <Modal title={`${verb} ${connector.name}`} onClose={onClose}>
      {what === 'test' && <p>Asks the vendor for its models, from the control plane and from a proxy.</p>}
      {what === 'toggle' && connector.enabled && (
        <p>No request goes to this account until it is enabled again.</p>
      )}
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
      <Form submit={verb} onSubmit={run} onCancel={onClose} />
    </Modal>
  );
}
