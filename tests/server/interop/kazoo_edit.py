"""Creates, writes and deletes nodes, and ends with a session whose ephemeral node goes with it: edit CONNECT PATH"""
import sys

from kazoo.client import KazooClient

hosts, path = sys.argv[1], sys.argv[2]
client = KazooClient(hosts=hosts, timeout=20)
client.start()
client.set(path, "Größe".encode())
for number in range(20):
    client.create(f"{path}/dir-{number % 4}/node-{number}", str(number).encode(), makepath=True)
for number in range(0, 20, 2):
    client.set(f"{path}/dir-{number % 4}/node-{number}", b"even")
client.delete(f"{path}/dir-3", recursive=True)
client.create(f"{path}/dir-3", b"again")
transaction = client.transaction()
transaction.create(f"{path}/both", b"1")
transaction.set_data(f"{path}/dir-0/node-0", b"2")
transaction.delete(f"{path}/dir-0/node-4")
assert not any(isinstance(result, Exception) for result in transaction.commit())
client.create(f"{path}/line-", b"", sequence=True)
client.create(f"{path}/mine", b"", ephemeral=True)
client.stop()
