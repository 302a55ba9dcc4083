<?php
// Makes the table of users: alice and bob, whose passwords have the tenant's name.
require __DIR__ . '/../lib/app.php';

$users = users();
$users->exec('CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, hash TEXT)');
foreach (['alice', 'bob'] as $name) {
    $hash = password_hash("$name at " . TENANT, PASSWORD_BCRYPT, ['cost' => 4]);
    $users->prepare('INSERT OR REPLACE INTO users VALUES (?, ?)')->execute([$name, $hash]);
}
echo $users->query('SELECT count(*) FROM users')->fetchColumn(), " users\n";
