import type { components } from '@weighbridge/client';
import { createAlias, deleteAlias, getAlias, updateAlias } from '@weighbridge/client/operations';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Name } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Loaded, Section } from '../ui/Page.tsx';
import { RowActions } from '../ui/resources.tsx';
import type { ShownFields } from '../ui/specs.ts';
import { Table } from '../ui/Table.tsx';
import { PolicyName } from './PolicyName.tsx';

type Alias = components['schemas']['Alias'];

/** Names that stand for models. */
export function Aliases() {
  const { dialog, create, edit, remove } = useResource(ALIASES);
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/aliases', { params: { query: { page_size: 500 } } });
  const actions = (alias: Alias) => [
    { label: 'Edit', run: () => edit(alias) },
    { label: 'Delete', danger: true, run: () => remove(alias) },
  ];
  return (
    <Section title="Aliases" actions={mayWrite && <Button onClick={() => create()}>Create an alias</Button>}>
      <Loaded query={query}>
        {({ data }) => (
          <Table<Alias>
            caption="Aliases"
            rows={data}
            rowKey={({ id }) => id}
            columns={[
              { title: 'Name', value: ({ name }) => <Name text={name} />, wrap: true },
              { title: 'Stands for', value: ({ target }) => <Name text={target} />, wrap: true },
              {
                title: 'State',
                value: ({ usable, unusable_reason }) =>
                  usable ? (
                    <Badge tone="good">usable</Badge>
                  ) : (
                    <Name text={unusable_reason ?? 'not usable'} />
                  ),
                wrap: true,
              },
              { title: 'For', value: ({ policy_id }) => <PolicyName id={policy_id} none="all keys" /> },
              ...(mayWrite
                ? [
                    {
                      title: 'Actions',
                      value: (alias: Alias) => <RowActions of={alias.name} actions={actions(alias)} />,
                      end: true,
                    },
                  ]
                : []),
            ]}
            empty={<p>No alias. One lets clients keep the names that they know.</p>}
          />
        )}
      </Loaded>
      {dialog}
    </Section>
  );
}

const FIELDS: ShownFields<keyof components['schemas']['AliasChanges']> = {
  name: { hint: 'Exact, or a beginning and *.' },
  target: { label: 'Stands for', hint: '<provider>/<model> or router/<profile>.' },
  policy_id: { label: 'Only for keys of', hint: 'None: of all.' },
};
export const ALIASES: Resource<Alias> = {
  noun: 'alias',
  create: createAlias,
  read: getAlias,
  update: updateAlias,
  remove: deleteAlias,
  fields: FIELDS,
  removal: ({ target }) => `The name no longer stands for ${target}.`,
};
