import type { components } from '@weighbridge/client';
import { useState } from 'react';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Name, Time } from '../ui/bits.tsx';
import { enteredValues } from '../ui/fieldSpecs.ts';
import { Form, SpecFields, type Texts } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import { Loaded, Problem } from '../ui/Page.tsx';
import { RowActions, useReload } from '../ui/resources.tsx';
import { Table } from '../ui/Table.tsx';
import { PRICE_SPECS, usd } from './prices.ts';

type Price = components['schemas']['ConnectorPrice'];

/** The prices negotiated for an account. */
export function ConnectorPrices({
  connector: { id, name },
  onClose,
}: {
  connector: components['schemas']['Connector'];
  onClose: () => void;
}) {
  const mayWrite = isOperator(useWhoami());
  const reload = useReload();
  const [failure, setFailure] = useState<unknown>();
  const query = api.useQuery('get', '/api/v1/connectors/{connector_id}/prices', {
    params: { path: { connector_id: id }, query: { page_size: 500 } },
  });
  const priceOf = (model: string) => ({ params: { path: { connector_id: id, model } } });
  const set = async (texts: Texts) => {
    const { model, ...body } = enteredValues(SPECS, texts);
    await client.PUT('/api/v1/connectors/{connector_id}/prices/{model}', {
      ...priceOf(String(model)),
      body: body as never,
    });
    await reload();
  };
  const end = (model: string) => {
    setFailure(undefined);
    client
      .DELETE('/api/v1/connectors/{connector_id}/prices/{model}', priceOf(model))
      .then(reload)
      .catch(setFailure);
  };
  return (
    <Modal title={`Negotiated prices of ${name}`} onClose={onClose} wide>
      <p>In USD for a million tokens. A model without one costs what the catalog says.</p>
      <Loaded query={query}>
        {({ data }) => (
          <Table<Price>
            caption={`Negotiated prices of ${name}`}
            rows={data.filter(({ price }) => price !== null)}
            rowKey={({ model }) => model}
            columns={[
              { title: 'Model', value: ({ model }) => <Name text={model} />, wrap: true },
              { title: 'Input', value: ({ price }) => price && usd(price.input_price), end: true },
              { title: 'From cache', value: ({ price }) => price && usd(price.cache_read_price), end: true },
              { title: 'Output', value: ({ price }) => price && usd(price.output_price), end: true },
              { title: 'Since', value: ({ created_at }) => <Time at={created_at} /> },
              ...(mayWrite
                ? [
                    {
                      title: 'Actions',
                      value: ({ model }: Price) => (
                        <RowActions
                          of={model}
                          actions={[{ label: 'End', danger: true, run: () => end(model) }]}
                        />
                      ),
                      end: true,
                    },
                  ]
                : []),
            ]}
            empty={<p>No price was negotiated.</p>}
          />
        )}
      </Loaded>
      {failure !== undefined && <Problem error={failure} />}
      {mayWrite && (
        <Form submit="Set the price" onSubmit={set} onCancel={onClose} cancel="Close">
          <SpecFields specs={SPECS} />
        </Form>
      )}
    </Modal>
  );
}

const SPECS = [
  { name: 'model', label: 'Model', kind: 'text', required: true, hint: '<provider>/<model>' } as const,
  ...PRICE_SPECS,
];
