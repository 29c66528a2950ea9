// The command `secrets rotate`: encrypts the secrets of the store with a new key, and prints the remaining steps. See
// access/secrets/secret_rotation.ts for the rotation.
import { type Rotation, rotateSecrets } from '../access/secrets/secret_rotation.ts';
import type { Settings } from '../settings/read_settings.ts';
import type { Command } from './command.ts';
import { withStore } from './data_directory.ts';

export const rotateSecretsOfStore: Command['run'] = async (settings, print) => {
  const rotation = await withStore(settings, ({ store }, dataDirectory) =>
    rotateSecrets({
      store,
      dataDirectory,
      key: settings.secretKey,
      keyFile: settings.secretKeyFile,
      nextKey: settings.secretKeyNew,
      newKeyFile: settings.newKeyFile,
    }),
  );
  for (const line of outcome(rotation, settings)) print(line);
  const { secrets, keyFile = null, isInPlace } = rotation;
  return { secrets, keyFile, inPlace: isInPlace };
};

function outcome({ secrets, keyFile, isInPlace }: Rotation, settings: Settings): string[] {
  const done = `${secrets} ${secrets === 1 ? 'secret is' : 'secrets are'} encrypted with the new key.`;
  if (isInPlace) return [done, `It is in ${keyFile}; back it up separately from the data.`];
  const old = settings.secretKey ? 'TABULARIUM_SECRET_KEY' : settings.secretKeyFile || 'the old key file';
  return [
    done,
    keyFile === undefined
      ? 'Start the server with the new key in TABULARIUM_SECRET_KEY.'
      : `Start the server with --secret-key-file ${keyFile}.`,
    `The key in ${old} is no longer used.`,
  ];
}
