import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { readsAll, useWhoami } from '../app/session.ts';
import { Badge, Name, Time } from '../ui/bits.tsx';
import { Filters } from '../ui/fields.tsx';
import { Loaded, Page, Section } from '../ui/Page.tsx';
import { useSearch } from '../ui/search.ts';
import { Pager, Table } from '../ui/Table.tsx';

type Team = components['schemas']['Team'];

export function Teams() {
  const whoami = useWhoami();
  const query = api.useQuery('get', '/api/v1/teams', { params: { query: { page_size: 500 } } });
  return (
    <Page
      title="Principals & teams"
      lead="A team’s policy counts for its members, and for the teams below it."
    >
      <Section title="Teams">
        <Loaded query={query}>
          {({ data }) => (
            <Table<Team>
              caption="Teams"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Team', value: ({ name }) => <Name text={name} />, wrap: true },
                {
                  title: 'Below',
                  value: ({ parent_team_id: parent }) =>
                    parent && <Name text={data.find(({ id }) => id === parent)?.name ?? parent} />,
                },
                {
                  title: 'State',
                  value: ({ frozen }) => (
                    <Badge tone={frozen ? 'bad' : 'good'}>{frozen ? 'frozen' : 'active'}</Badge>
                  ),
                },
                { title: 'Created', value: ({ created_at }) => <Time at={created_at} /> },
              ]}
              empty={<p>No team. Create one with the API or the file of apply.</p>}
            />
          )}
        </Loaded>
      </Section>
      {readsAll(whoami) && <Principals />}
    </Page>
  );
}

function Principals() {
  const [search] = useSearch();
  const given = ['id_contains', 'page_token']
    .filter((name) => search[name])
    .map((name) => [name, search[name]]);
  const query = api.useQuery('get', '/api/v1/principals', { params: { query: Object.fromEntries(given) } });
  return (
    <Section title="Principals">
      <Filters filters={[{ name: 'id_contains', label: 'Id contains' }]} />
      <Loaded query={query}>
        {({ data, next_page_token }) => (
          <>
            <Table
              caption="Principals"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Principal', value: ({ id }) => <Name text={id} />, wrap: true },
                {
                  title: 'State',
                  value: ({ active }) => (
                    <Badge tone={active ? 'good' : 'bad'}>{active ? 'active' : 'deactivated'}</Badge>
                  ),
                },
                { title: 'Role', value: ({ role }) => role ?? '–' },
                { title: 'Team', value: ({ team_name }) => (team_name ? <Name text={team_name} /> : '–') },
                { title: 'In the team', value: ({ team_role }) => team_role ?? '–' },
                { title: 'Created', value: ({ created_at }) => <Time at={created_at} /> },
              ]}
              empty={<p>No principal matches.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
    </Section>
  );
}
