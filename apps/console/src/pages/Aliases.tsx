import type { components } from '@weighbridge/client';
import { usePolicyChoices } from '../api/choices.ts';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Name } from '../ui/bits.tsx';
import type { FieldSpec } from '../ui/fieldSpecs.ts';
import { Loaded, Section } from '../ui/Page.tsx';
import { ConfirmModal, CreateModal, EditModal, RowActions, useDialog } from '../ui/resources.tsx';
import { Table } from '../ui/Table.tsx';
import { PolicyName } from './PolicyName.tsx';

type Alias = components['schemas']['Alias'];
interface AliasDialog {
  readonly alias: Alias;
  readonly onClose: () => void;
}

/** Names that stand for models. */
export function Aliases() {
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/aliases', { params: { query: { page_size: 500 } } });
  const actions = (alias: Alias) => [
    { label: 'Edit', run: () => open(<Edit alias={alias} onClose={close} />) },
    { label: 'Delete', danger: true, run: () => open(<Delete alias={alias} onClose={close} />) },
  ];
  return (
    <Section
      title="Aliases"
      actions={mayWrite && <Button onClick={() => open(<Create onClose={close} />)}>Create an alias</Button>}
    >
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

function useSpecs(): readonly FieldSpec[] | undefined {
  const policies = usePolicyChoices();
  if (!policies) return undefined;
  return [
    { name: 'name', label: 'Name', kind: 'text', required: true, hint: 'Exact, or a beginning and *.' },
    {
      name: 'target',
      label: 'Stands for',
      kind: 'text',
      required: true,
      hint: '<provider>/<model> or router/<profile>.',
    },
    { name: 'policy_id', label: 'Only for keys of', kind: 'choice', choices: policies },
  ];
}

function Create({ onClose }: { onClose: () => void }) {
  return (
    <CreateModal
      title="Create an alias"
      specs={useSpecs()}
      create={(values) => client.POST('/api/v1/aliases', { body: values as never })}
      onClose={onClose}
    />
  );
}

const readAlias = (id: string) => () =>
  client.GET('/api/v1/aliases/{alias_id}', { params: { path: { alias_id: id } } });

function Edit({ alias: { id, name }, onClose }: AliasDialog) {
  return (
    <EditModal
      title={`Edit ${name}`}
      id={id}
      specs={useSpecs()}
      read={readAlias(id)}
      save={(body, header) =>
        client.PATCH('/api/v1/aliases/{alias_id}', { params: { path: { alias_id: id }, header }, body })
      }
      onClose={onClose}
    />
  );
}

function Delete({ alias: { id, name, target }, onClose }: AliasDialog) {
  return (
    <ConfirmModal
      title={`Delete ${name}`}
      submit="Delete the alias"
      danger
      id={id}
      read={readAlias(id)}
      act={(header) =>
        client.DELETE('/api/v1/aliases/{alias_id}', { params: { path: { alias_id: id }, header } })
      }
      onClose={onClose}
    >
      <p>The name no longer stands for {target}.</p>
    </ConfirmModal>
  );
}
