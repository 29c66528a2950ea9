// The user of ClickHouse that the deployment creates (deploy/compose/clickhouse/users.xml), on the servers of the tests: what the engine does there,
// it does with the grants that operators give it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const password = 'deployed';
const deployment = join(import.meta.dirname, '../../../../deploy/compose/clickhouse/users.xml');

/** A node made of the library runs its own statement as the user `default`, which a server does not. */
const users = ({ hasCheck }: { readonly hasCheck: boolean }) =>
  readFileSync(deployment, 'utf8')
    .replace('<default remove="remove"/>', '')
    .replace(/<include_from>.*<\/include_from>/, '')
    .replace(/<password_sha256_hex incl="[^"]*"\/>/, `<password>${password}</password>`)
    .replace(hasCheck ? '' : '<query>GRANT CHECK ON *.*</query>', '');

/** What the packages of ClickHouse configure. Statements of the tests themselves are of this user. */
const packagedUsers = `<clickhouse>
  <profiles><default/></profiles><quotas><default/></quotas>
  <users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
</clickhouse>`;

export const deployedUser = { user: 'tabularium', password };

const userFile = 'users.d/tabularium.xml';

/** By its path beside the configuration of a server of 24.8 whose users are in users.xml. */
export const oldestServerFiles = (): Readonly<Record<string, string>> => ({ [userFile]: users({ hasCheck: false }) });

/** By their paths beside the configuration of a node of a ring. */
export const nodeUserFiles = (): Readonly<Record<string, string>> => ({
  'config.d/users.xml': '<clickhouse><users_config>users.xml</users_config></clickhouse>',
  'users.xml': packagedUsers,
  [userFile]: users({ hasCheck: true }),
});
